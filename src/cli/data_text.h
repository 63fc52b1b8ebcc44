/* Names of files and classes in JSON: any bytes may stand in them, and JSON is UTF-8. */
#ifndef ULL_CLI_DATA_TEXT_H
#define ULL_CLI_DATA_TEXT_H

#include <jansson.h>
#include <stdio.h>

/* A text as a JSON string. Bytes that are not UTF-8 become \udcXX, as Python's surrogateescape has
 * it, so that no name is lost. */
void cli_data_put_text(FILE *file, const char *text);

/* The same for objects made by jansson, which takes no halves of characters: such a byte becomes
 * the four characters \xNN. A new reference; NULL when memory is out. */
json_t *cli_data_text(const char *text);

#endif
