#include "support/small_training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/data_files.h"

float images[SAMPLES][PIXELS];
int64_t targets[SAMPLES];

void make_samples(void) {
  for (int s = 0; s < SAMPLES; s++) {
    targets[s] = (s * 7 + s / CLASSES) % CLASSES;
    for (int p = 0; p < PIXELS; p++) {
      unsigned noise = (unsigned)(s * 7919 + p * 104729) % 997u;
      images[s][p] = (float)noise / 997.0f + (p % CLASSES == targets[s] ? 0.25f : 0.0f);
    }
  }
}

const char *write_samples(const char *folder) {
  static char text[600];
  byte_buffer image = {0}, target = {0}, archive = {0};
  append_npy(&image, "<f4", false, "(30, 1, 8, 8)", images, sizeof images);
  append_npy(&target, "<i8", false, "(30,)", targets, sizeof targets);
  const npz_member members[] = {{"image.npy", image.bytes, image.count},
                                {"target.npy", target.bytes, target.count}};
  append_zip(&archive, members, 2, false);
  const char *path = path_in(folder, "samples.npz");
  write_file(path, archive.bytes, archive.count);
  snprintf(text, sizeof text, "npz:%s", path);
  free_buffer(&image);
  free_buffer(&target);
  free_buffer(&archive);
  return text;
}

void require(ull_status status) {
  if (status != ULL_OK) fail_msg("%s", ull_error_last()->message);
}

ull_config *configure(const setting *more) {
  static const setting usual[] = {{"model", MODEL}, {"batch-size", "6"},   {"lr", "0.05"},
                                  {"steps", "5"},   {"threads", "1"},      {"json", "true"},
                                  {"seed", "3"},    {"no-shuffle", "true"}};
  ull_config *config;
  require(ull_config_create(ULL_COMMAND_TRAIN, &config));
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    require(ull_config_set(config, usual[i].name, usual[i].value));
  for (; more && more->name; more++) require(ull_config_set(config, more->name, more->value));
  return config;
}

session begin(const setting *more) {
  session s = {.config = configure(more)};
  require(ull_trainer_create(s.config, &s.trainer));
  assert_true(ull_trainer_fits(s.trainer));
  require(ull_trainer_start(s.trainer));
  return s;
}

void end(session *s) {
  ull_trainer_destroy(s->trainer);
  ull_config_destroy(s->config);
}
