/* What the name of a picture to be written says about its format. */
#ifndef ULL_CLI_PICTURE_NAME_H
#define ULL_CLI_PICTURE_NAME_H

#include "cli/cli.h"

typedef enum picture_format {
  PICTURE_ANY, /* the name does not say: the command's own */
  PICTURE_PNG,
  PICTURE_JPEG,
  PICTURE_PNM,   /* .ppm, .pgm */
  PICTURE_OTHER, /* one that nothing here writes */
} picture_format;

picture_format cli_picture_format(const char *path);

/* Refuses a name whose format is not among `known`, words such as ".png"; returns the exit code. */
int cli_refuse_picture(const command *c, const char *path, const char *known);

#endif
