/* By the ending alone; a file never holds another format than its name says. */
#include "cli/picture_name.h"

#include <string.h>
#include <strings.h>

static const struct {
  const char *ending;
  picture_format format;
} endings[] = {{".png", PICTURE_PNG},   {".jpg", PICTURE_JPEG},  {".jpeg", PICTURE_JPEG},
               {".jpe", PICTURE_JPEG},  {".jfif", PICTURE_JPEG}, {".ppm", PICTURE_PNM},
               {".pgm", PICTURE_PNM},   {".pnm", PICTURE_PNM},   {".webp", PICTURE_OTHER},
               {".gif", PICTURE_OTHER}, {".bmp", PICTURE_OTHER}, {".tif", PICTURE_OTHER},
               {".tiff", PICTURE_OTHER}};

picture_format cli_picture_format(const char *path) {
  const char *dot = strrchr(path, '.');
  for (size_t i = 0; dot != NULL && i < sizeof endings / sizeof endings[0]; i++)
    if (strcasecmp(dot, endings[i].ending) == 0) return endings[i].format;
  return PICTURE_ANY;
}

int cli_refuse_picture(const command *c, const char *path, const char *known) {
  char message[512], change[128];
  snprintf(message, sizeof message, "--out %.300s: %s is written", path, known);
  snprintf(change, sizeof change, "a name that ends in %s", known);
  return cli_error(c, ULL_ERROR_USAGE, message, change);
}
