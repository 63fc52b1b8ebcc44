/* ullage: finds the command, reads its flags, runs it. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "ullage/log.h"
#include "ullage/version.h"

static int usage(FILE *out) {
  fprintf(out, "ullage %s: deep-learning training that fits into the memory you have\n\n",
          ull_version());
  fprintf(out, "  ullage COMMAND [flags]        flags of a command: ullage COMMAND --help\n\n");
  for (int c = 0; c < ULL_COMMAND_COUNT; c++)
    fprintf(out, "  %-8s %s\n", ull_command_name((ull_command)c),
            ull_command_summary((ull_command)c));
  fprintf(out, "\n  ullage train zoo:resnet8 --data idx:/usr/share/datasets/fashion-mnist --memory "
               "200MiB\n");
  return 0;
}

static int unavailable(ull_command which, const command *c) {
  static const char format[] = "%s is not part of this version";
  fprintf(stderr, "ullage: ");
  fprintf(stderr, format, ull_command_name(which));
  fputc('\n', stderr);
  if (c->json) {
    printf("{\"schema\":1,\"error\":{\"code\":\"%s\",\"message\":\"",
           ull_status_name(ULL_ERROR_UNSUPPORTED));
    printf(format, ull_command_name(which));
    printf("\",\"holder\":\"\",\"shortfall_bytes\":0,\"change\":\"\"}}\n");
  }
  return ull_status_exit_code(ULL_ERROR_UNSUPPORTED);
}

static int dispatch(ull_command which, command *c) {
  switch (which) {
  case ULL_COMMAND_PROBE:
    return cli_probe(c);
  case ULL_COMMAND_CHECK:
    return cli_check(c);
  case ULL_COMMAND_PLAN:
    return cli_plan(c);
  case ULL_COMMAND_TRAIN:
    return cli_train(c);
  case ULL_COMMAND_EVAL:
    return cli_eval(c);
  case ULL_COMMAND_DATA:
    return cli_data(c);
  default:
    return unavailable(which, c);
  }
}

/* On few cores a compute team that spins while it waits starves the loader's threads. libgomp reads
 * this once, when the process starts, so the process starts again. */
static void restart_with_passive_waiting(char **argv) {
  if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
  if (setenv("OMP_WAIT_POLICY", "passive", 1) != 0 || setenv("GOMP_SPINCOUNT", "2000", 1) != 0)
    return;
  char path[4096]; /* by its name: the link itself leads to Valgrind where that runs us */
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  execv(path, argv);
}

static bool wants_json(int argc, char **argv) {
  for (int i = 2; i < argc; i++)
    if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "--json=true") == 0) return true;
  return false;
}

static int print_help(command *c) {
  const char *help = ull_config_help(c->config);
  if (help) fputs(help, stdout);
  return help ? 0 : cli_fail(c, NULL);
}

static int parse_and_dispatch(ull_command which, command *c, int argc, char **argv) {
  if (ull_config_parse(c->config, argc - 2, (const char *const *)argv + 2) != ULL_OK)
    return cli_fail(c, NULL);
  if (ull_config_flag(c->config, "help")) return print_help(c);
  c->json = ull_config_flag(c->config, "json");
  c->report = c->json ? stderr : stdout;
  return dispatch(which, c);
}

static void print_warning(void *unused, ull_log_level level, const char *message) {
  (void)unused;
  fprintf(stderr, "ullage: %s", ull_log_level_name(level));
  cli_put(stderr, ": ", message, "\n");
}

static int run_command(ull_command which, int argc, char **argv) {
  command c = {.json = wants_json(argc, argv)};
  c.report = c.json ? stderr : stdout;
  ull_log_set(print_warning, NULL, ULL_LOG_WARNING);
  if (ull_config_create(which, &c.config) != ULL_OK) return cli_fail(&c, NULL);
  int code = parse_and_dispatch(which, &c, argc, argv);
  ull_config_destroy(c.config);
  return code;
}

double cli_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A closed standard stream would give its number to the next file opened, and what is printed would
 * go into that file. Opened so that using it still fails. */
static void hold_standard_streams(void) {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* The exit code of `code`, or 1 where what was printed did not arrive. */
static int close_output(int code) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return code;
  fprintf(stderr, "ullage: cannot write to standard output%s%s\n", errno ? ": " : "",
          errno ? strerror(errno) : "");
  return code == 0 ? 1 : code;
}

/* Blocks of some size go back to the system when they are freed, and all threads take theirs from
 * one place. By default the allocator keeps blocks with every thread once it has seen a few:
 * libwebp's, which come and go with each picture. Nothing else is allocated while work is done. */
static void bound_heap(void) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  mallopt(M_ARENA_MAX, 1);
#endif
}

int main(int argc, char **argv) {
  hold_standard_streams();
  bound_heap();
  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
  if (argc < 2) return usage(stderr), 2;
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
    return close_output(usage(stdout));
  if (strcmp(argv[1], "--version") == 0)
    return close_output(printf("ullage %s\n", ull_version()) < 0);
  ull_command which;
  command none = {.json = wants_json(argc, argv)};
  if (ull_command_find(argv[1], &which) != ULL_OK) return cli_fail(&none, NULL);
  bool computes =
      which == ULL_COMMAND_TRAIN || which == ULL_COMMAND_EVAL || which == ULL_COMMAND_PROBE;
  if (computes) restart_with_passive_waiting(argv);
  return close_output(run_command(which, argc, argv));
}
