/* The options table and configurations: every row sound, every way to set a value, texts that
 * people see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/options.h"
#include "base/philox.h"
#include "ullage/config.h"

static ull_config *config;

static ull_status parse_words(ull_command command, const char *const *words) {
  int count = 0;
  while (words[count] != NULL) count++;
  ull_config_destroy(config);
  config = NULL;
  assert_int_equal(ull_config_create(command, &config), ULL_OK);
  return ull_config_parse(config, count, words);
}

#define PARSE(command, ...) \
  parse_words(ULL_COMMAND_##command, (const char *const[]){__VA_ARGS__, NULL})

static int drop_config(void **state) {
  (void)state;
  ull_config_destroy(config);
  config = NULL;
  return 0;
}

static void every_row_is_sound(void **state) {
  (void)state;
  for (size_t i = 0; i < ull__option_count; i++) {
    const ull__option *option = &ull__options[i];
    assert_true(option->commands != 0);
    assert_true(strlen(option->help) > 5);
    assert_true((option->metavar == NULL) == (option->kind == ULL__OPTION_FLAG));
    if (option->initial != NULL) {
      assert_int_equal(ull__option_check_value(option, option->initial), ULL_OK);
    }
    for (size_t j = 0; j < i; j++) {
      bool same = strcmp(option->name, ull__options[j].name) == 0;
      assert_false(same && (option->commands & ull__options[j].commands) != 0);
    }
  }
}

static void plan_and_train_share_their_flags(void **state) {
  (void)state;
  for (size_t i = 0; i < ull__option_count; i++) {
    uint32_t commands = ull__options[i].commands;
    assert_int_equal(commands >> ULL_COMMAND_PLAN & 1, commands >> ULL_COMMAND_TRAIN & 1);
  }
}

static void defaults_are_there_without_a_word(void **state) {
  (void)state;
  assert_int_equal(PARSE(TRAIN, "zoo:mlp"), ULL_OK);
  assert_string_equal(ull_config_text(config, "model"), "zoo:mlp");
  assert_int_equal(ull_config_integer(config, "batch-size"), 64);
  assert_int_equal(ull_config_integer(config, "micro-batch"), -1);
  assert_string_equal(ull_config_text(config, "micro-batch"), "off");
  assert_true(ull_config_real(config, "momentum") == 0.9);
  assert_false(ull_config_flag(config, "nesterov"));
  assert_false(ull_config_has(config, "memory"));
  assert_int_equal(ull_config_bytes(config, "memory"), 0);
  double betas[2], rate = 5;
  assert_true(ull_config_pair(config, "betas", betas));
  assert_true(betas[0] == 0.9 && betas[1] == 0.999);
  assert_false(ull_config_real_for(config, "lr", "fc.weight", &rate));
  assert_true(rate == 5);
  assert_int_equal(ull_config_source_of(config, "seed"), ULL_CONFIG_DEFAULT);
}

static void the_last_of_a_repeated_flag_wins(void **state) {
  (void)state;
  assert_int_equal(PARSE(TRAIN, "--batch-size", "8", "zoo:mlp", "--memory=4GiB", "--batch-size=16",
                         "--freeze", "a*", "--nesterov", "--freeze=b*", "--micro-batch", "auto"),
                   ULL_OK);
  assert_int_equal(ull_config_integer(config, "batch-size"), 16);
  assert_int_equal(ull_config_bytes(config, "memory"), 4ull << 30);
  assert_int_equal(ull_config_count(config, "freeze"), 2);
  assert_string_equal(ull_config_item(config, "freeze", 0), "a*");
  assert_string_equal(ull_config_item(config, "freeze", 1), "b*");
  assert_null(ull_config_item(config, "freeze", 2));
  assert_true(ull_config_flag(config, "nesterov"));
  assert_string_equal(ull_config_text(config, "micro-batch"), "auto");
  assert_int_equal(ull_config_source_of(config, "memory"), ULL_CONFIG_FLAG);
}

static void patterns_choose_rates(void **state) {
  (void)state;
  double rate;
  assert_int_equal(
      PARSE(TRAIN, "m", "--lr", "*.bias=0.2", "--lr", "0.5", "--lr", "0.1", "--lr", "head.*=1e-3"),
      ULL_OK);
  assert_true(ull_config_real_for(config, "lr", "body.weight", &rate) && rate == 0.1);
  assert_true(ull_config_real_for(config, "lr", "body.bias", &rate) && rate == 0.2);
  assert_true(ull_config_real_for(config, "lr", "head.bias", &rate) && rate == 1e-3);
}

static void positional_words_and_dashes(void **state) {
  (void)state;
  assert_int_equal(PARSE(DATA, "bench", "synthetic", "--workers", "1,2,4"), ULL_OK);
  assert_int_equal(ull_config_positional_count(config), 2);
  assert_string_equal(ull_config_positional(config, 1), "synthetic");
  assert_null(ull_config_positional(config, 2));
  assert_string_equal(ull_config_text(config, "workers"), "1,2,4");
  assert_int_equal(PARSE(TRAIN, "--", "--odd.pt2"), ULL_OK);
  assert_string_equal(ull_config_text(config, "model"), "--odd.pt2");
  assert_int_equal(PARSE(TRAIN, "-h"), ULL_OK);
  assert_true(ull_config_flag(config, "help"));
}

/* What each wrong line says, word for word. */
static void wrong_words_are_answered(void **state) {
  (void)state;
  static const struct {
    const char *words[6];
    ull_status status;
    const char *message, *holder, *change;
  } cases[] = {
      {{"m", "--bach-size", "8"},
       ULL_ERROR_USAGE,
       "unknown flag --bach-size",
       "--bach-size",
       "did you mean --batch-size?"},
      {{"m", "--quux"},
       ULL_ERROR_USAGE,
       "unknown flag --quux",
       "--quux",
       "see ullage train --help"},
      {{"m", "--rank", "1"},
       ULL_ERROR_USAGE,
       "train does not take --rank",
       "--rank",
       "--rank is for: data"},
      {{"m", "--batch-size", "0"},
       ULL_ERROR_USAGE,
       "--batch-size 0: must be between 1 and 1000000000",
       "--batch-size",
       ""},
      {{"m", "--batch-size", "1.5"},
       ULL_ERROR_USAGE,
       "--batch-size 1.5: expected a whole number",
       "--batch-size",
       ""},
      {{"m", "--batch-size", "99999999999999999999"},
       ULL_ERROR_OVERFLOW,
       "--batch-size 99999999999999999999: the number does not fit into 63 bits",
       "--batch-size",
       ""},
      {{"m", "--micro-batch", "some"},
       ULL_ERROR_USAGE,
       "--micro-batch some: expected a whole number or off|auto",
       "--micro-batch",
       ""},
      {{"m", "--memory", "50%"},
       ULL_ERROR_USAGE,
       "--memory: '50%' is not a size: unknown unit",
       "--memory",
       "write a size as 4GiB, 512MiB, 1.5GB or in plain bytes"},
      {{"m", "--memory", "0"}, ULL_ERROR_USAGE, "--memory 0: must be at least 1", "--memory", ""},
      {{"m", "--memory", "9000000TiB"},
       ULL_ERROR_OVERFLOW,
       "--memory: '9000000TiB' does not fit into 63 bits",
       "--memory",
       ""},
      {{"m", "--memory"}, ULL_ERROR_USAGE, "--memory needs a value: SIZE", "--memory", ""},
      {{"m", "--memory", "--json"},
       ULL_ERROR_USAGE,
       "--memory needs a value: SIZE",
       "--memory",
       ""},
      {{"m", "--opt", "adagrad"},
       ULL_ERROR_USAGE,
       "--opt adagrad: expected sgd|adam|adamw",
       "--opt",
       ""},
      {{"m", "--lr", "nan"}, ULL_ERROR_USAGE, "--lr nan: expected X|GLOB=X", "--lr", ""},
      {{"m", "--lr", "-1"}, ULL_ERROR_USAGE, "--lr -1: expected X|GLOB=X", "--lr", ""},
      {{"m", "--betas", "0.9"}, ULL_ERROR_USAGE, "--betas 0.9: expected X,X", "--betas", ""},
      {{"m", "--momentum", "1.5"},
       ULL_ERROR_USAGE,
       "--momentum 1.5: must be between 0 and 1",
       "--momentum",
       ""},
      {{"m", "--init", ""}, ULL_ERROR_USAGE, "--init '': expected FILE", "--init", ""},
      {{"m", "--json=maybe"},
       ULL_ERROR_USAGE,
       "--json maybe: expected true or false",
       "--json",
       ""},
      {{"m", "n"}, ULL_ERROR_USAGE, "'n' is one argument too many", "n", ""},
      {{"m", "-x"}, ULL_ERROR_USAGE, "unknown flag -x", "", "flags begin with two dashes"},
      {{"m", "--normalize", "1,2"},
       ULL_ERROR_USAGE,
       "--normalize 1,2: expected auto|none|MEAN:STD",
       "--normalize",
       ""},
      {{"m", "--trace-steps", "5-3"},
       ULL_ERROR_USAGE,
       "--trace-steps 5-3: expected A-B",
       "--trace-steps",
       ""},
      {{"m", "--checkpoint-every", "10m"},
       ULL_ERROR_USAGE,
       "--checkpoint-every 10m: expected N|10min",
       "--checkpoint-every",
       ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_int_equal(parse_words(ULL_COMMAND_TRAIN, cases[i].words), cases[i].status);
    assert_string_equal(ull_error_last()->message, cases[i].message);
    assert_string_equal(ull_error_last()->holder, cases[i].holder);
    assert_string_equal(ull_error_last()->change, cases[i].change);
  }
}

static void right_shapes_are_taken(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"normalize", "none"},
      {"normalize", "0.5:0.2"},
      {"normalize", "1,2,3:0.1,1,1"},
      {"trace-steps", "3-5"},
      {"trace-steps", "7"},
      {"checkpoint-every", "10min"},
      {"checkpoint-every", "500"},
      {"input", "x=images"},
      {"weight-decay", "0.05"},
      {"weight-decay", "*.bias=0"},
      {"val-split", "0.1"},
      {"schedule", "one-cycle"},
      {"seed", "0"},
      {"machine", "device:8GiB"},
      {"device", "sim:512MiB@8GB/s"},
      {"seed", "9223372036854775807"},
  };
  assert_int_equal(PARSE(TRAIN, "m"), ULL_OK);
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    assert_int_equal(ull_config_set(config, pairs[i][0], pairs[i][1]), ULL_OK);
    assert_string_equal(ull_config_text(config, pairs[i][0]), pairs[i][1]);
  }
  assert_true(ull_config_integer(config, "seed") == INT64_MAX);
}

static void commands_are_found_or_suggested(void **state) {
  (void)state;
  ull_command command;
  assert_int_equal(ull_command_find("train", &command), ULL_OK);
  assert_int_equal(command, ULL_COMMAND_TRAIN);
  assert_int_equal(ull_command_find("trian", &command), ULL_ERROR_USAGE);
  assert_string_equal(ull_error_last()->change, "did you mean train?");
  assert_int_equal(ull_command_find("xyzzy", &command), ULL_ERROR_USAGE);
  assert_string_equal(ull_error_last()->change, "see ullage --help");
  assert_int_equal(ull__edit_distance("kitten", "sitting"), 3);
  assert_int_equal(ull__edit_distance("ab", "ba"), 1);
  assert_int_equal(ull__edit_distance("", "abc"), 3);
}

static void misuse_by_the_program_is_recorded(void **state) {
  (void)state;
  assert_int_equal(PARSE(TRAIN, "m"), ULL_OK);
  ull_error_clear();
  assert_int_equal(ull_config_integer(config, "no-such"), 0);
  assert_int_equal(ull_error_last()->status, ULL_ERROR_INTERNAL);
  ull_error_clear();
  assert_int_equal(ull_config_integer(config, "momentum"), 0);
  assert_int_equal(ull_error_last()->status, ULL_ERROR_INTERNAL);
}

/* ---- files ---- */

static char path[] = "/tmp/ullage-config-XXXXXX";

static void write_file(const char *text) {
  assert_int_equal(ull__file_write_atomic(path, text, strlen(text)), ULL_OK);
}

static void lines_set_what_the_command_line_does_not(void **state) {
  (void)state;
  write_file("# recipe\n\nbatch-size = 32   # small\nlr=0.3\r\nrun = \"a # b\"\nlr = *.bias=0.6\n"
             "nesterov = yes\nrank = 3\nseed = 5");
  assert_int_equal(PARSE(TRAIN, "m", "--seed", "7", "--lr", "0.1", "--config", path), ULL_OK);
  assert_int_equal(ull_config_integer(config, "batch-size"), 32);
  assert_int_equal(ull_config_source_of(config, "batch-size"), ULL_CONFIG_FILE);
  assert_int_equal(ull_config_integer(config, "seed"), 7);
  assert_int_equal(ull_config_count(config, "lr"), 1);
  assert_string_equal(ull_config_text(config, "run"), "a # b");
  assert_true(ull_config_flag(config, "nesterov"));
}

static void json_files_do_the_same(void **state) {
  (void)state;
  write_file(" {\"batch-size\": 32, \"momentum\": 0.1, \"nesterov\": true, \"lr\": [0.3, "
             "\"*.bias=0.6\"], \"memory\": \"1GiB\"}");
  assert_int_equal(PARSE(TRAIN, "m", "--config", path), ULL_OK);
  assert_int_equal(ull_config_integer(config, "batch-size"), 32);
  assert_true(ull_config_real(config, "momentum") == 0.1);
  assert_int_equal(ull_config_count(config, "lr"), 2);
  assert_int_equal(ull_config_bytes(config, "memory"), 1 << 30);
}

static void wrong_files_are_answered_with_line_and_path(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"batch-size = 4\nbatch-sise = 8\n", ", line 2: unknown flag --batch-sise"},
      {"batch-size 4", ", line 1: 'batch-size 4' has no '='"},
      {"batch-size = zero", ", line 1: --batch-size zero: expected a whole number"},
      {"{\"batch-size\": null}", ": \"batch-size\" must be a text, a number or true or false"},
      {"{\"batch-size\": [[1]]}", ": \"batch-size\" must be a text, a number or true or false"},
      {"{", ": not valid JSON at line 1"},
      {"{\n  \"batch-size\" 4\n}", ": not valid JSON at line 2, column 16: "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    write_file(cases[i][0]);
    assert_int_equal(PARSE(TRAIN, "m", "--config", path), ULL_ERROR_USAGE);
    assert_non_null(strstr(ull_error_last()->message, cases[i][1]));
    assert_non_null(strstr(ull_error_last()->message, path));
  }
  assert_int_equal(PARSE(TRAIN, "m", "--config", "/no/such/file"), ULL_ERROR_IO);
}

/* Damaged files of both forms end in a status, whatever the bytes. */
static void no_file_is_too_broken(void **state) {
  (void)state;
  static const char *const seeds[] = {
      "{\"batch-size\": 32, \"lr\": [0.3, \"*.bias=0.6\"], \"memory\": \"1GiB\"}",
      "batch-size = 4\nlr = 0.1 # x\nrun = \"a b\"\nbetas = 0.9,0.99\nnormalize = 1,2:3,4\n"};
  int accepted = 0, refused = 0;
  for (uint64_t n = 0; n < 4000; n++) {
    char text[160];
    size_t length = strlen(seeds[n & 1]);
    memcpy(text, seeds[n & 1], length);
    for (uint64_t i = 0; i < 1 + n % 5; i++) {
      ull__philox_block random = ull__philox(1, n, i);
      text[random.word[0] % length] = (char)random.word[1];
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    fclose(file);
    ull_status status = PARSE(TRAIN, "m", "--config", path);
    accepted += status == ULL_OK;
    refused += status != ULL_OK;
    if (status != ULL_OK) assert_true(strlen(ull_error_last()->message) > 0);
  }
  assert_true(accepted > 20 && refused > 1000);
}

static void what_is_resolved_can_be_loaded_again(void **state) {
  (void)state;
  assert_int_equal(PARSE(TRAIN, "zoo:mlp?a=1", "--lr", "0.1", "--lr", "*.bias=0.2", "--memory",
                         "1536MiB", "--nesterov", "--run", "my run", "--label-smoothing", "0.1",
                         "--json", "--data", "idx:/d#1"),
                   ULL_OK);
  char *json = ull__strdup(ull_config_resolved_json(config));
  assert_null(strstr(json, "\"json\""));
  assert_null(strchr(json, '\n'));
  assert_non_null(strstr(json, "\"model\":\"zoo:mlp?a=1\""));
  assert_non_null(strstr(json, "\"label-smoothing\":0.1,"));
  assert_non_null(strstr(json, "\"lr\":[\"0.1\",\"*.bias=0.2\"]"));
  write_file(json);
  assert_int_equal(PARSE(TRAIN, "--config", path), ULL_OK);
  assert_string_equal(ull_config_resolved_json(config), json);
  ull__free(json);
}

/* Help is a golden file, reviewed like code: ULLAGE_UPDATE_GOLDEN=1 rewrites it. */
static void help_is_as_reviewed(void **state) {
  (void)state;
  const char *source = getenv("ULLAGE_SOURCE_DIR");
  if (source == NULL) skip();
  for (ull_command command = 0; command < ULL_COMMAND_COUNT; command++) {
    char golden[512], *expected;
    size_t bytes;
    snprintf(golden, sizeof golden, "%s/tests/golden/help_%s.txt", source,
             ull_command_name(command));
    assert_int_equal(parse_words(command, (const char *const[]){NULL}), ULL_OK);
    const char *help = ull_config_help(config);
    assert_non_null(help);
    if (getenv("ULLAGE_UPDATE_GOLDEN") != NULL) {
      assert_int_equal(ull__file_write_atomic(golden, help, strlen(help)), ULL_OK);
    }
    assert_int_equal(ull__file_read(golden, 1 << 20, &expected, &bytes), ULL_OK);
    assert_string_equal(help, expected);
    ull__free(expected);
    for (const char *line = help; line != NULL; line = strchr(line, '\n')) {
      if (*line == '\n') line++;
      assert_true(strcspn(line, "\n") <= 100);
    }
    for (size_t i = 0; ull_config_option_name(command, i) != NULL; i++) {
      const char *name = ull_config_option_name(command, i);
      if (strcmp(name, "model") != 0) assert_non_null(strstr(help, name));
    }
  }
}

static void every_failing_allocation_is_survived(void **state) {
  (void)state;
  int failures = 0;
  write_file("batch-size = 4\nlr = 0.1\nlr = *.bias=2\n");
  static const char *const words[] = {"m", "--lr", "1", "--lr", "2", "--config", path};
  drop_config(NULL);
  uint64_t live = ull__alloc_count().live_bytes;
  for (uint64_t n = 1;; n++) {
    ull_config *tried = NULL;
    ull__alloc_fail_at(n);
    ull_status status = ull_config_create(ULL_COMMAND_TRAIN, &tried);
    if (status == ULL_OK) status = ull_config_parse(tried, 7, words);
    bool printed = status == ULL_OK && ull_config_help(tried) != NULL &&
                   ull_config_resolved_json(tried) != NULL;
    ull__alloc_fail_at(0);
    ull_config_destroy(tried);
    assert_int_equal(ull__alloc_count().live_bytes, live);
    if (printed) break;
    assert_int_equal(ull_error_last()->status, ULL_ERROR_OUT_OF_MEMORY);
    failures++;
  }
  assert_true(failures > 100);
}

static int make_path(void **state) {
  (void)state;
  int file = mkstemp(path);
  return file < 0 || close(file) != 0;
}

static int remove_path(void **state) {
  (void)state;
  return unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_is_sound),
      cmocka_unit_test(plan_and_train_share_their_flags),
      cmocka_unit_test_teardown(defaults_are_there_without_a_word, drop_config),
      cmocka_unit_test_teardown(the_last_of_a_repeated_flag_wins, drop_config),
      cmocka_unit_test_teardown(patterns_choose_rates, drop_config),
      cmocka_unit_test_teardown(positional_words_and_dashes, drop_config),
      cmocka_unit_test_teardown(wrong_words_are_answered, drop_config),
      cmocka_unit_test_teardown(right_shapes_are_taken, drop_config),
      cmocka_unit_test_teardown(commands_are_found_or_suggested, drop_config),
      cmocka_unit_test_teardown(misuse_by_the_program_is_recorded, drop_config),
      cmocka_unit_test_teardown(lines_set_what_the_command_line_does_not, drop_config),
      cmocka_unit_test_teardown(json_files_do_the_same, drop_config),
      cmocka_unit_test_teardown(wrong_files_are_answered_with_line_and_path, drop_config),
      cmocka_unit_test_teardown(no_file_is_too_broken, drop_config),
      cmocka_unit_test_teardown(what_is_resolved_can_be_loaded_again, drop_config),
      cmocka_unit_test_teardown(help_is_as_reviewed, drop_config),
      cmocka_unit_test_teardown(every_failing_allocation_is_survived, drop_config),
  };
  return cmocka_run_group_tests(tests, make_path, remove_path);
}
