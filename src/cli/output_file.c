/* Files that flags name. Standard output is written as what it is, not opened a second time, and
 * words then go elsewhere; of what could not be written whole nothing is left, but a device or a
 * pipe is never removed. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

static bool is_standard_output(const char *path) {
  struct stat named, ours;
  return stat(path, &named) == 0 && fstat(STDOUT_FILENO, &ours) == 0 &&
         named.st_dev == ours.st_dev && named.st_ino == ours.st_ino;
}

static int tell(const command *c, const char *path, int error) {
  char message[512];
  snprintf(message, sizeof message, "%.300s: cannot be written: %s", path,
           error != 0 ? strerror(error) : "not all of it was taken");
  return cli_error(c, ULL_ERROR_IO, message,
                   error == ENOSPC ? "make room, or name another file" : "name another file");
}

FILE *cli_create(command *c, const char *path, int *code) {
  *code = errno = 0;
  if (is_standard_output(path)) {
    c->report = stderr;
    return stdout;
  }
  FILE *file = fopen(path, "wb");
  if (file == NULL) *code = tell(c, path, errno);
  return file;
}

int cli_finish(const command *c, FILE *file, const char *path, int code) {
  int before = errno; /* of a write that failed, where the last one did not */
  struct stat about;
  bool removable = file != stdout && fstat(fileno(file), &about) == 0 && S_ISREG(about.st_mode);
  errno = 0;
  bool written = fflush(file) == 0 && !ferror(file);
  int error = errno != 0 ? errno : before;
  if (file != stdout && fclose(file) != 0 && written) {
    written = false;
    error = errno;
  }
  if (written) return code;
  clearerr(stdout); /* told here */
  if (removable) unlink(path);
  return code != 0 ? code : tell(c, path, error);
}
