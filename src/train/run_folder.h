/* A run's folder: locked while it is in use, holding the resolved configuration, metrics and
 * weights.
 *
 *     DIR/lock            taken by the running process; left behind empty
 *     DIR/config.json     the resolved configuration: `--config DIR/config.json` runs it again
 *     DIR/metrics.jsonl   one JSON object a step
 *     DIR/weights.safetensors
 *     DIR/weights.previous.safetensors, DIR/metrics.previous.jsonl   of the run before, in the same
 * folder
 */
#ifndef ULL_TRAIN_RUN_FOLDER_H
#define ULL_TRAIN_RUN_FOLDER_H

#include <stdbool.h>
#include <sys/types.h>

#include "ullage/config.h"
#include "ullage/status.h"
#include "ullage/train.h"

typedef struct ull__run_folder {
  char path[768];
  int lock, metrics;   /* file descriptors; -1 while closed */
  off_t metrics_bytes; /* whole lines written */
} ull__run_folder;

/* Creates and locks the folder (`path` NULL: a new one under runs/, named after `model`), writes
 * the configuration (with `normalize` in the place of its own where that is not NULL), opens the
 * metrics. ULL_ERROR_BUSY where another run holds it; ULL_ERROR_IO where it cannot be written. */
ull_status ull__run_folder_open(const char *path, const char *model, ull_config *config,
                                const char *normalize, ull__run_folder *out);
void ull__run_folder_close(ull__run_folder *folder);

/* Appends a step's line. No allocation of ours. */
ull_status ull__run_folder_log(ull__run_folder *folder, const ull_step_metrics *metrics);

/* Renames STEM.ENDING of an earlier run in the same folder to STEM.previous.ENDING, where there is
 * one. Before the new file is written, not when the folder is opened: --init may name it. */
void ull__run_folder_keep_previous(const ull__run_folder *folder, const char *stem,
                                   const char *ending);

#endif
