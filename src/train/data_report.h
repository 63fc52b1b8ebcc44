/* Who holds a run back: the model or the loader. */
#ifndef ULL_TRAIN_DATA_REPORT_H
#define ULL_TRAIN_DATA_REPORT_H

#include "train/trainer.h"

typedef struct ull__data_report {
  bool is_known;          /* something was trained */
  bool is_loader;         /* steps wait for data more than 5 % of the time */
  double wait_fraction;   /* of all steps' time */
  ull_loader_stage stage; /* that the loader's threads spend most time in */
  double stage_share;     /* of their work */
  double gain;            /* how many times as fast without waiting */
  uint64_t bad;           /* samples that were replaced or left out */
} ull__data_report;

ull__data_report ull__trainer_data_report(const ull_trainer *trainer);

#endif
