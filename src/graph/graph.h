/* Values and nodes: the one representation that every stage passes on.
 *
 * A graph is in static single assignment: each value is made by one node or is a source (input,
 * parameter, state, constant). Nodes stand in execution order: every input of a node is a source or
 * an output of an earlier node. Ids are indices into `values` and `nodes` and never change; a stage
 * that changes a graph builds a new one. Node outputs that overwrite storage (a parameter after its
 * optimizer step) are new values whose operator row says whose storage they take.
 *
 * All memory of a graph belongs to the graph; names given to it are copied. A graph that is no
 * longer changed may be read from any number of threads. */
#ifndef ULL_GRAPH_GRAPH_H
#define ULL_GRAPH_GRAPH_H

#include "graph/operator.h"
#include "graph/shape.h"

typedef uint32_t ull__value_id;
typedef uint32_t ull__node_id;
#define ULL__NONE UINT32_MAX

typedef enum ull__role {
  ULL__ROLE_INPUT,      /* filled for every step: a batch, targets, the scalars of the recipe */
  ULL__ROLE_PARAMETER,  /* trained */
  ULL__ROLE_STATE,      /* kept from step to step, not trained: running statistics */
  ULL__ROLE_CONSTANT,   /* bytes known at import */
  ULL__ROLE_ACTIVATION, /* everything between, gradients of activations included */
  ULL__ROLE_GRADIENT,   /* gradient of a parameter */
  ULL__ROLE_OPTIMIZER_STATE, /* momentum and moments */
} ull__role;

typedef enum ull__phase {
  ULL__PHASE_FORWARD,
  ULL__PHASE_BACKWARD,
  ULL__PHASE_OPTIMIZER
} ull__phase;

typedef struct ull__value {
  const char *name; /* unique in the graph; parameters and states: the state_dict name */
  ull_dtype dtype;
  ull__role role;
  ull__shape shape;
  ull__node_id producer; /* ULL__NONE for sources */
  uint32_t output_index; /* which output of the producer */
  const char *module;    /* "layer4.1.conv2"; "" where unknown */
  const char *source;    /* "resnet.py:285"; "" where unknown */
  const void *constant;  /* bytes of a constant, in plain row-major order; NULL for others */
  ull__value_id
      subject; /* gradient, optimizer state: the parameter it belongs to; else ULL__NONE */
} ull__value;

/* One step of a fused element-wise chain; see graph/elementwise.h for the codes. Operand numbers
 * 0..inputs-1 are the node's inputs, inputs+k is the result of step k. The last step's result is
 * the node's output. */
typedef struct ull__element_step {
  uint8_t code;
  uint8_t operand_count;
  uint8_t operands[6];
  double immediate;
  uint64_t identity; /* of the node this step was, for random masks */
} ull__element_step;

#define ULL__MAX_ELEMENT_STEPS 12

typedef struct ull__node {
  const ull__operator *op;
  const char *name; /* unique; what plans and errors call it */
  const char *module;
  const char *source;
  ull__phase phase;
  uint64_t identity; /* keys this node's random numbers; the backward twin of a random node has the
                        same */
  uint32_t input_count;
  uint32_t output_count;
  const ull__value_id *inputs; /* ULL__NONE for an optional input that is absent */
  const ull__value_id *outputs;
  ull__attribute attributes[ULL__MAX_ATTRIBUTES]; /* as op->attributes orders them */
  const ull__element_step *steps;                 /* fused element-wise chain only */
  uint32_t step_count;
  ull__node_id alternative_of; /* a dormant node that computes the outputs' twin from another saved
                                  form; else ULL__NONE */
} ull__node;

typedef struct ull__output {
  const char *name; /* "loss", "correct", "logits" */
  ull__value_id value;
} ull__output;

typedef struct ull__graph ull__graph;

ull_status ull__graph_create(const char *name, ull__graph **out);
void ull__graph_destroy(ull__graph *graph); /* NULL is allowed */

const char *ull__graph_name(const ull__graph *graph);
uint32_t ull__graph_value_count(const ull__graph *graph);
uint32_t ull__graph_node_count(const ull__graph *graph);
const ull__value *ull__graph_value(const ull__graph *graph, ull__value_id id);
const ull__node *ull__graph_node(const ull__graph *graph, ull__node_id id);
uint32_t ull__graph_output_count(const ull__graph *graph);
const ull__output *ull__graph_output(const ull__graph *graph, uint32_t index);

/* ULL__NONE where the graph has no such value or output. */
ull__value_id ull__graph_find_value(const ull__graph *graph, const char *name);
ull__value_id ull__graph_find_output(const ull__graph *graph, const char *name);

/* Whether a node runs only where a plan chooses another saved form: it is an alternative, or all
 * that read its outputs are alternatives. */
bool ull__node_is_dormant(const ull__graph *graph, ull__node_id node);

/* What a node costs in a bound graph: the row's rule, or one operation an element. Views cost
 * nothing. */
ull__cost ull__node_cost(const ull__graph *graph, const ull__node *node);

/* Batch size this graph was bound to; 0 while the symbol is free. */
int64_t ull__graph_batch(const ull__graph *graph);

/* ---- building ---- */

/* Where the next values and nodes come from; both strings are copied, NULL = "". */
ull_status ull__graph_set_origin(ull__graph *graph, const char *module, const char *source);

/* Adds a source. `name` must be unused; names of other roles get a number appended when they are
 * taken. */
ull_status ull__graph_add_source(ull__graph *graph, ull__role role, const char *name,
                                 ull_dtype dtype, const ull__shape *shape, ull__value_id *out);

/* A constant; `bytes` (row-major, as dtype and shape say) are copied. The shape must be free of the
 * batch. */
ull_status ull__graph_add_constant(ull__graph *graph, const char *name, ull_dtype dtype,
                                   const ull__shape *shape, const void *bytes, ull__value_id *out);

/* Attributes are given by name; the rest keep the row's defaults. */
typedef struct ull__attribute_setting {
  const char *name;
  ull__attribute value;
} ull__attribute_setting;

#define ULL__INT(name_, value_)                \
  {                                            \
    .name = (name_), .value = {.i = (value_) } \
  }
#define ULL__REAL(name_, value_)               \
  {                                            \
    .name = (name_), .value = {.f = (value_) } \
  }

/* Adds a node at the end of the order: checks arity, runs the shape and type rules, creates the
 * output values (named `name`, or `name.1`, `name.2` for the further ones) and writes their ids to
 * outputs[0 .. op->outputs). The phase is the graph's current one (ull__graph_set_phase), forward
 * at first. */
ull_status ull__graph_add_node(ull__graph *graph, const char *op, const char *name,
                               const ull__value_id *inputs, uint32_t input_count,
                               const ull__attribute_setting *settings, uint32_t setting_count,
                               ull__value_id *outputs);

void ull__graph_set_phase(ull__graph *graph, ull__phase phase);

/* Gives a node another random identity: the backward twin of a random node takes its own. */
void ull__graph_set_identity(ull__graph *graph, ull__node_id node, uint64_t identity);

/* Makes `node` a dormant alternative of `primary`. */
void ull__graph_set_alternative(ull__graph *graph, ull__node_id node, ull__node_id primary);

ull_status ull__graph_set_role(ull__graph *graph, ull__value_id value, ull__role role,
                               ull__value_id subject);
ull_status ull__graph_add_output(ull__graph *graph, const char *name, ull__value_id value);

/* ---- stages: each takes a finished graph and returns a new one; the old one is left alone ---- */

/* Adds backward: gradients of output `loss` for every parameter that it depends on. The gradient of
 * the loss itself is the input `loss_weight` (a scalar of the loss' type), which is created. The
 * gradient of a parameter has role GRADIENT, the parameter as subject and the name
 * `PARAMETER.grad`; partial sums on the way to it have that role and subject under other names.
 * Contributions to one value are added in the order in which they arise. Dormant alternatives of
 * ReLU's backward (one bit an element) stand beside their primaries. */
ull_status ull__graph_differentiate(const ull__graph *graph, ull__graph **out);

typedef enum ull__optimizer { ULL__SGD, ULL__ADAM, ULL__ADAMW } ull__optimizer;

typedef struct ull__recipe {
  ull__optimizer optimizer;
  double momentum, beta1, beta2, eps, weight_decay;
  bool nesterov;
  bool decay_all; /* also one-dimensional parameters (norms, biases) */
} ull__recipe;

/* Adds the optimizer's nodes to a differentiated graph, one for each parameter that has a gradient,
 * right after its gradient is complete and nothing reads the parameter any more, and its state:
 * `PARAMETER.momentum`, or `PARAMETER.m` and `PARAMETER.v` (subject: the parameter). The step's
 * scalars come in through the input `hyper` (float32 [8], float64 where the parameters are; see
 * graph/hyper.h). The updated parameters and states are activations that take the storage of what
 * they update. Parameters with fewer than two dimensions do not decay unless decay_all. */
ull_status ull__graph_add_optimizer(const ull__graph *graph, const ull__recipe *recipe,
                                    ull__graph **out);

/* For accumulation and clipping, in place of the optimizer: after each complete gradient a node
 * `accumulate` adds it to the source `PARAMETER.grad_total` (role GRADIENT, subject: the
 * parameter), which lives from step to step and is emptied by the trainer. */
ull_status ull__graph_add_accumulation(const ull__graph *graph, ull__graph **out);

/* The program that ends an accumulated step: the parameters of `accumulated` that have a
 * `grad_total`, those totals, the optimizer's state and nodes, and nothing else. */
ull_status ull__graph_make_update(const ull__graph *accumulated, const ull__recipe *recipe,
                                  ull__graph **out);

/* The graph for evaluation, from a forward training graph: running statistics, no dropout, no state
 * updates. */
ull_status ull__graph_derive_evaluation(const ull__graph *graph, ull__graph **out);

/* Puts a number in the place of the batch symbol. */
ull_status ull__graph_bind(const ull__graph *graph, int64_t batch, ull__graph **out);

/* Replaces what can be computed now by constants and removes nodes without a reader. */
ull_status ull__graph_fold(const ull__graph *graph, ull__graph **out);

/* Joins chains of element-wise nodes whose intermediate values have one reader into fused nodes,
 * and ReLU's backward into the batch normalisation's that alone reads it. Same bits. Runs on the
 * joint graph: after differentiation and the optimizer. */
ull_status ull__graph_fuse(const ull__graph *graph, ull__graph **out);

/* Whether a batch may be split into micro-batches; where not, ULL_ERROR_UNSUPPORTED, and the record
 * names the first node that mixes samples. */
ull_status ull__graph_check_splittable(const ull__graph *graph);

/* The graph as text, one node a line, for --show graph. The caller frees it with ull__free. */
ull_status ull__graph_text(const ull__graph *graph, char **out);

#endif
