/* The blocked driver of matrix products: B is packed block by block, A in blocks of rows, and tasks
 * of a few panels of each are handed out. Which thread takes which task changes no bit. Where there
 * are few rows of A to repay packing, whole panels of a B with contiguous rows stay where they are.
 */
#include "kernels/cpu/loops/gemm.h"

#include "kernels/cpu/loops/panels.h"

enum { FEW_ROWS = 64, TASK_ROW_PANELS = 16, TASK_COLUMN_PANELS = 8, TASKS_WANTED = 16 };
#define ENOUGH_FLOPS 2e6

/* The block of the product being computed: rows [row, row + rows) and so on. */
typedef struct block {
  const ull__gemm *gemm;
  float *a_panels, *b_panels;
  int64_t row, rows, column, columns, depth_at, depth;
  bool in_place; /* whole panels of B are not packed */
} block;

static void pack_a(const block *b, int64_t panel) {
  const ull__gemm *g = b->gemm;
  int64_t row = b->row + panel * PANEL_ROWS;
  pack_panel(g->a + row * g->a_row + b->depth_at * g->a_column, g->a_row, g->a_column,
             smaller(PANEL_ROWS, b->row + b->rows - row), b->depth,
             b->a_panels + panel * PANEL_ROWS * b->depth, PANEL_ROWS);
}

static void pack_b(const block *b, int64_t panel) {
  const ull__gemm *g = b->gemm;
  int64_t column = b->column + panel * PANEL_COLUMNS;
  if (b->in_place && column + PANEL_COLUMNS <= g->n) return;
  pack_panel(g->b + column * g->b_column + b->depth_at * g->b_row, g->b_column, g->b_row,
             smaller(PANEL_COLUMNS, b->column + b->columns - column), b->depth,
             b->b_panels + panel * PANEL_COLUMNS * b->depth, PANEL_COLUMNS);
}

/* ---- one tile ---- */

typedef struct tile_target {
  float *c;
  int64_t c_row;
  const float *bias; /* of the tile's columns; NULL = none */
  bool add;
} tile_target;

INLINE void multiply_tile(int64_t depth, const float *a, const float *b, int64_t b_depth,
                          int vectors, const tile_target *to) {
  panel_sums sums;
  UNROLL(16) for (int i = 0; i < PANEL_ROWS; i++) {
    UNROLL(8) for (int j = 0; j < vectors; j++) sums[i][j] = (vfloat){0};
  }
  multiply_strided(depth, a, 1, PANEL_ROWS, b, b_depth, vectors, sums);
  UNROLL(16) for (int i = 0; i < PANEL_ROWS; i++) {
    UNROLL(8) for (int j = 0; j < vectors; j++) {
      float *c = to->c + i * to->c_row + j * LANES;
      vfloat sum = sums[i][j];
      if (to->add) sum = load(c) + sum;
      if (to->bias != NULL) sum = sum + load(to->bias + j * LANES);
      store(c, sum);
    }
  }
}

static void multiply_whole(int64_t depth, const float *a, const float *b, const tile_target *to) {
  multiply_tile(depth, a, b, PANEL_COLUMNS, PANEL_VECTORS, to);
}

static void multiply_two(int64_t depth, const float *a, const float *b, const tile_target *to) {
  multiply_tile(depth, a, b, PANEL_COLUMNS, 2, to);
}

static void multiply_one(int64_t depth, const float *a, const float *b, const tile_target *to) {
  multiply_tile(depth, a, b, PANEL_COLUMNS, 1, to);
}

static void multiply_in_place(int64_t depth, const float *a, const float *b, int64_t b_depth,
                              const tile_target *to) {
  multiply_tile(depth, a, b, b_depth, PANEL_VECTORS, to);
}

/* A tile at the edge goes through a buffer: the same sums, added in the same order. */
static void multiply_edge(int64_t depth, const float *a, const float *b, int64_t b_depth,
                          const tile_target *to, int64_t rows, int64_t columns) {
  float buffer[PANEL_ROWS * PANEL_COLUMNS];
  tile_target aside = {.c = buffer, .c_row = PANEL_COLUMNS};
  int64_t vectors = divide_up(columns, LANES);
  if (vectors == PANEL_VECTORS) {
    multiply_in_place(depth, a, b, b_depth, &aside);
  } else if (vectors == 2) {
    multiply_two(depth, a, b, &aside);
  } else {
    multiply_one(depth, a, b, &aside);
  }
  for (int64_t i = 0; i < rows; i++) {
    float *c = to->c + i * to->c_row;
    for (int64_t j = 0; j < columns; j++) {
      float sum = buffer[i * PANEL_COLUMNS + j];
      if (to->add) sum = c[j] + sum;
      c[j] = to->bias != NULL ? sum + to->bias[j] : sum;
    }
  }
}

static void run_tile(const block *b, int64_t row_panel, int64_t column_panel) {
  const ull__gemm *g = b->gemm;
  int64_t row = b->row + row_panel * PANEL_ROWS, column = b->column + column_panel * PANEL_COLUMNS;
  int64_t rows = smaller(PANEL_ROWS, b->row + b->rows - row);
  int64_t columns = smaller(PANEL_COLUMNS, b->column + b->columns - column);
  bool last = b->depth_at + b->depth == g->k;
  tile_target to = {.c = g->c + row * g->c_row + column,
                    .c_row = g->c_row,
                    .bias = last && g->bias != NULL ? g->bias + column : NULL,
                    .add = g->add || b->depth_at > 0};
  const float *a = b->a_panels + row_panel * PANEL_ROWS * b->depth;
  const float *right = b->b_panels + column_panel * PANEL_COLUMNS * b->depth;
  int64_t right_depth = PANEL_COLUMNS;
  if (b->in_place && columns == PANEL_COLUMNS) {
    right = g->b + column + b->depth_at * g->b_row;
    right_depth = g->b_row;
  }
  if (rows < PANEL_ROWS || columns % LANES != 0) {
    multiply_edge(b->depth, a, right, right_depth, &to, rows, columns);
  } else if (right_depth != PANEL_COLUMNS) {
    multiply_in_place(b->depth, a, right, right_depth, &to);
  } else if (columns == PANEL_COLUMNS) {
    multiply_whole(b->depth, a, right, &to);
  } else if (columns == 2 * LANES) {
    multiply_two(b->depth, a, right, &to);
  } else {
    multiply_one(b->depth, a, right, &to);
  }
}

/* ---- tasks ---- */

typedef struct task_grid {
  int64_t row_panels, column_panels; /* of the block */
  int64_t task_rows, task_columns;   /* panels of one task */
  int64_t row_tasks, tasks;
} task_grid;

static task_grid divide_into_tasks(const block *b) {
  task_grid grid = {.row_panels = divide_up(b->rows, PANEL_ROWS),
                    .column_panels = divide_up(b->columns, PANEL_COLUMNS),
                    .task_rows = TASK_ROW_PANELS,
                    .task_columns = TASK_COLUMN_PANELS};
  for (;;) {
    grid.row_tasks = divide_up(grid.row_panels, grid.task_rows);
    grid.tasks = grid.row_tasks * divide_up(grid.column_panels, grid.task_columns);
    if (grid.tasks >= TASKS_WANTED || (grid.task_rows == 1 && grid.task_columns == 1)) return grid;
    if (grid.task_rows > 2 * grid.task_columns || grid.task_columns == 1) {
      grid.task_rows = divide_up(grid.task_rows, 2);
    } else {
      grid.task_columns = divide_up(grid.task_columns, 2);
    }
  }
}

static void run_task(const block *b, const task_grid *grid, int64_t task) {
  int64_t row = task % grid->row_tasks * grid->task_rows;
  int64_t column = task / grid->row_tasks * grid->task_columns;
  int64_t row_end = smaller(row + grid->task_rows, grid->row_panels);
  int64_t column_end = smaller(column + grid->task_columns, grid->column_panels);
  for (int64_t i = row; i < row_end; i++) {
    for (int64_t j = column; j < column_end; j++) run_tile(b, i, j);
  }
}

/* Blocks of `size` in whole panels, at most `most`, as even as they come. */
static int64_t even_block(int64_t size, int64_t most, int64_t panel) {
  return divide_up(divide_up(size, divide_up(size, most)), panel) * panel;
}

static int64_t block_rows(const ull__gemm *g) {
  return even_block(g->m, ULL__GEMM_ROWS, PANEL_ROWS);
}

static int64_t block_columns(const ull__gemm *g) {
  return even_block(g->n, ULL__GEMM_COLUMNS, PANEL_COLUMNS);
}

static block first_block(const ull__gemm *g) {
  int64_t columns = block_columns(g);
  int64_t depth = smaller(g->k, ULL__GEMM_DEPTH);
  return (block){.gemm = g,
                 .b_panels = g->scratch,
                 .a_panels = g->scratch + columns * depth,
                 .in_place = g->b_column == 1 && g->m <= FEW_ROWS};
}

static void set_columns(block *b, int64_t column) {
  b->column = column;
  b->columns = smaller(block_columns(b->gemm), b->gemm->n - column);
}

static void set_depth(block *b, int64_t depth_at) {
  b->depth_at = depth_at;
  b->depth = smaller(ULL__GEMM_DEPTH, b->gemm->k - depth_at);
}

static void set_rows(block *b, int64_t row) {
  b->row = row;
  b->rows = smaller(block_rows(b->gemm), b->gemm->m - row);
}

/* Packs what the block needs: A, and B where these are the first rows. */
static int64_t panels_to_pack(const block *b, const task_grid *grid) {
  return grid->row_panels + (b->row == 0 ? grid->column_panels : 0);
}

static void pack_one(const block *b, const task_grid *grid, int64_t index) {
  if (index < grid->row_panels) {
    pack_a(b, index);
  } else {
    pack_b(b, index - grid->row_panels);
  }
}

void ULL__ISA_NAME(ull__gemm_team)(const ull__gemm *g) {
  PARALLEL(2.0 * (double)g->m * (double)g->n * (double)g->k >= ENOUGH_FLOPS) {
    block b = first_block(g);
    for (int64_t column = 0; column < g->n; column += b.columns) {
      set_columns(&b, column);
      for (int64_t depth_at = 0; depth_at < g->k; depth_at += ULL__GEMM_DEPTH) {
        set_depth(&b, depth_at);
        for (int64_t row = 0; row < g->m; row += b.rows) {
          set_rows(&b, row);
          task_grid grid = divide_into_tasks(&b);
          SHARED_FOR
          for (int64_t i = 0; i < panels_to_pack(&b, &grid); i++) pack_one(&b, &grid, i);
          SHARED_DYNAMIC_FOR
          for (int64_t task = 0; task < grid.tasks; task++) run_task(&b, &grid, task);
        }
      }
    }
  }
}

void ULL__ISA_NAME(ull__gemm_alone)(const ull__gemm *g) {
  block b = first_block(g);
  for (int64_t column = 0; column < g->n; column += b.columns) {
    set_columns(&b, column);
    for (int64_t depth_at = 0; depth_at < g->k; depth_at += ULL__GEMM_DEPTH) {
      set_depth(&b, depth_at);
      for (int64_t row = 0; row < g->m; row += b.rows) {
        set_rows(&b, row);
        task_grid grid = divide_into_tasks(&b);
        for (int64_t i = 0; i < panels_to_pack(&b, &grid); i++) pack_one(&b, &grid, i);
        for (int64_t task = 0; task < grid.tasks; task++) run_task(&b, &grid, task);
      }
    }
  }
}
