/* Single changes to decisions that lower the peak of a schedule. */
#ifndef ULL_PLAN_MOVES_H
#define ULL_PLAN_MOVES_H

#include "plan/schedule.h"

/* What moves need to know of forward, computed once. */
typedef struct ull__forward_reads {
  const uint32_t *last_read; /* by root: the last forward node that reads it */
} ull__forward_reads;

typedef enum ull__move_kind {
  ULL__MOVE_DROP,     /* no longer kept for backward */
  ULL__MOVE_FLEETING, /* no longer held for later readers of a replay */
  ULL__MOVE_FORM,     /* its readers take another saved form, and it is dropped */
} ull__move_kind;

typedef struct ull__move {
  ull__move_kind kind;
  ull__value_id root;
  double score; /* bytes freed at the peak for each second of computing them again */
} ull__move;

/* The best move for a recomputable value that lies idle at the peak; false where there is none. */
bool ull__find_move(const ull__schedule_model *model, const ull__schedule *schedule,
                    const ull__decisions *decisions, const ull__forward_reads *reads,
                    ull__move *out);
void ull__apply_move(const ull__schedule_model *model, const ull__move *move,
                     ull__decisions *decisions);

/* Values that the replay at the peak makes for its base node although an earlier replay of backward
 * made them too: `node` is the maker, and stays behind that earlier replay when it gets `hold`.
 * At most `most`; returns how many. */
typedef struct ull__retention {
  ull__node_id node;
  uint32_t hold;
} ull__retention;
uint32_t ull__find_retentions(const ull__schedule_model *model, const ull__schedule *schedule,
                              const ull__decisions *decisions, ull__retention *out, uint32_t most);

/* A change of what replays leave behind, for a walk that only wants less: of the node's decisions,
 * and with `drop` its values are no longer kept either. */
typedef struct ull__replay_change {
  ull__node_id node;
  uint32_t hold;
  bool fleeting, drop;
} ull__replay_change;

/* Changes that may lower the peak: something recomputable that lies idle there goes; something that
 * the replay at the peak makes stays behind an earlier one. At most `most`; returns how many. */
uint32_t ull__find_replay_changes(const ull__schedule_model *model, const ull__schedule *schedule,
                                  const ull__decisions *decisions, ull__replay_change *out,
                                  uint32_t most);

/* Values made by backward that lie idle at the peak, largest first; at most `most`. Returns how
 * many. */
uint32_t ull__find_held(const ull__schedule_model *model, const ull__schedule *schedule,
                        ull__value_id *out, uint32_t most);

/* Ways of changing the order so that a held value is not live when the base node of the peak runs.
 */
typedef enum ull__order_move {
  ULL__ORDER_READERS_EARLIER,          /* its readers move in front of that node */
  ULL__ORDER_PEAK_EARLIER,             /* that node moves in front of the held value's maker */
  ULL__ORDER_PEAK_AND_READERS_EARLIER, /* and so do the readers of what it makes */
  ULL__ORDER_MOVES
} ull__order_move;

/* `moved` is false, and the order unchanged, where inputs or updates forbid the move. */
ull_status ull__reorder_held(const ull__schedule_model *model, const ull__schedule *schedule,
                             ull__decisions *decisions, ull__value_id held, ull__order_move move,
                             bool *moved);

#endif
