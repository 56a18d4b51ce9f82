// Recurrent layers, unrolled: a statement of a trace runs once, so a loop over
// time is a copy of the cell for each step.  The products with the inputs of
// all steps are one.  How many copies there may be is limited, since a short
// file can ask for many.
#include "frontend/aten.h"

enum { RNN_CELLS = 16384 };

typedef struct rnn_cell rnn_cell;
typedef void (*rnn_step)(rnn_cell *cell, th_value *input);

// One direction of one layer.
struct rnn_cell {
  th_builder *b;
  th_value *weight, *bias; // of the state
  th_value *h, *c;
  int64_t parts; // gates in a product
  rnn_step step;
  bool relu;
};

typedef struct rnn_job {
  th_call *call;
  th_builder *b;
  rnn_cell cell; // with step and parts
  th_value *x;   // [T, N, I]
  const th_pt2_arg *params;
  uint32_t next_param;
  bool has_bias;
  th_value **h, **c; // initial states, one for each cell; c NULL: none
  uint32_t cells;
} rnn_job;

// ---- cells -----------------------------------------------------------------

// The gates of a product, which lie side by side.
static void rnn_gates(const rnn_cell *cell, th_value *product,
                      th_value **out_gates) {
  th_builder *b = cell->b;
  const th_expr *whole =
      product ? product->type.dims[product->type.rank - 1] : NULL;
  const th_expr *size =
      whole ? th_expr_floordiv(b->ir, whole, th_int(b->ir, cell->parts)) : NULL;
  const th_expr *sizes[4] = {size, size, size, size};
  th_arg args[] = {th_v(product), th_nums(b->ir, sizes, (uint32_t)cell->parts),
                   th_i(b->ir, -1)};
  const th_stmt *stmt = th_build(b, th_op_row(TH_OP_split), args, 3, NULL);
  for (int64_t i = 0; i < cell->parts; i++) {
    out_gates[i] = stmt && i < stmt->out_count ? stmt->outs[i] : NULL;
  }
}

static th_value *rnn_of_state(const rnn_cell *cell) {
  return TH_BUILD(cell->b, linear, th_v(cell->h), th_v(cell->weight),
                  th_v(cell->bias));
}

static void rnn_lstm_step(rnn_cell *cell, th_value *input) {
  th_builder *b = cell->b;
  th_value *gates[4] = {NULL};
  rnn_gates(cell, TH_BUILD(b, add, th_v(input), th_v(rnn_of_state(cell))),
            gates);
  th_value *in = TH_BUILD(b, sigmoid, th_v(gates[0]));
  th_value *forget = TH_BUILD(b, sigmoid, th_v(gates[1]));
  th_value *fresh = TH_BUILD(b, tanh, th_v(gates[2]));
  th_value *out = TH_BUILD(b, sigmoid, th_v(gates[3]));
  th_value *kept = TH_BUILD(b, mul, th_v(forget), th_v(cell->c));
  fresh = TH_BUILD(b, mul, th_v(in), th_v(fresh));
  cell->c = TH_BUILD(b, add, th_v(kept), th_v(fresh));
  th_value *shown = TH_BUILD(b, tanh, th_v(cell->c));
  cell->h = TH_BUILD(b, mul, th_v(out), th_v(shown));
}

static void rnn_gru_step(rnn_cell *cell, th_value *input) {
  th_builder *b = cell->b;
  th_value *x[4] = {NULL}, *h[4] = {NULL};
  rnn_gates(cell, input, x);
  rnn_gates(cell, rnn_of_state(cell), h);
  th_value *reset = TH_BUILD(b, add, th_v(x[0]), th_v(h[0]));
  reset = TH_BUILD(b, sigmoid, th_v(reset));
  th_value *keep = TH_BUILD(b, add, th_v(x[1]), th_v(h[1]));
  keep = TH_BUILD(b, sigmoid, th_v(keep));
  th_value *fresh = TH_BUILD(b, mul, th_v(reset), th_v(h[2]));
  fresh = TH_BUILD(b, add, th_v(x[2]), th_v(fresh));
  fresh = TH_BUILD(b, tanh, th_v(fresh));
  th_value *gap = TH_BUILD(b, sub, th_v(cell->h), th_v(fresh));
  gap = TH_BUILD(b, mul, th_v(gap), th_v(keep));
  cell->h = TH_BUILD(b, add, th_v(gap), th_v(fresh));
}

static void rnn_plain_step(rnn_cell *cell, th_value *input) {
  th_builder *b = cell->b;
  th_value *sum = TH_BUILD(b, add, th_v(input), th_v(rnn_of_state(cell)));
  cell->h =
      cell->relu ? TH_BUILD(b, relu, th_v(sum)) : TH_BUILD(b, tanh, th_v(sum));
}

// ---- layers ----------------------------------------------------------------

static th_value *rnn_param(rnn_job *job) {
  const th_pt2_arg *list = job->params;
  if (job->next_param >= list->count) {
    return NULL;
  }
  th_arg arg = th_call_value(job->call, &list->items[job->next_param++]);
  return arg.kind == TH_ARG_VALUE ? arg.value : NULL;
}

static const th_stmt *rnn_unbind(th_builder *b, th_value *value) {
  th_arg args[] = {th_v(value), th_i(b->ir, 0)};
  return th_build(b, th_op_row(TH_OP_unbind), args, 2, NULL);
}

// All steps of one cell; the outputs as [T, N, H].
static th_value *rnn_run(rnn_job *job, uint32_t index, th_value *x,
                         bool backwards) {
  th_builder *b = job->b;
  rnn_cell cell = job->cell;
  th_value *input_weight = rnn_param(job);
  cell.weight = rnn_param(job);
  th_value *input_bias = job->has_bias ? rnn_param(job) : NULL;
  cell.bias = job->has_bias ? rnn_param(job) : NULL;
  cell.h = job->h[index];
  cell.c = job->c ? job->c[index] : NULL;
  th_value *products =
      TH_BUILD(b, linear, th_v(x), th_v(input_weight), th_v(input_bias));
  const th_stmt *steps = products ? rnn_unbind(b, products) : NULL;
  if (!steps) {
    return NULL;
  }
  uint32_t count = steps->out_count;
  th_arg *outs = TH_NEW_ARRAY(job->call->graph->arena, th_arg, count);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = backwards ? count - 1 - i : i;
    cell.step(&cell, steps->outs[at]);
    outs[at] = th_v(cell.h);
  }
  job->h[index] = cell.h;
  if (job->c) {
    job->c[index] = cell.c;
  }
  return TH_BUILD(b, stack, th_list(b->ir, outs, count), th_i(b->ir, 0));
}

static th_value *rnn_layers(rnn_job *job, uint32_t layers, bool both_ways) {
  th_builder *b = job->b;
  th_value *x = job->x;
  uint32_t index = 0;
  for (uint32_t i = 0; x && i < layers; i++) {
    th_value *forward = rnn_run(job, index++, x, false);
    if (!both_ways) {
      x = forward;
      continue;
    }
    th_arg ways[] = {th_v(forward), th_v(rnn_run(job, index++, x, true))};
    x = TH_BUILD(b, cat, th_list(b->ir, ways, 2), th_i(b->ir, -1));
  }
  return x;
}

// ---- operations ------------------------------------------------------------

static th_status rnn_malformed(const rnn_job *job) {
  return job->b->status
             ? job->b->status
             : th_call_unsupported(job->call, "such a recurrent layer");
}

// Initial states [cells, N, H] as one value for each cell.
static th_value **rnn_states(rnn_job *job, const th_pt2_arg *arg) {
  th_arg value = th_call_value(job->call, arg);
  const th_stmt *stmt =
      value.kind == TH_ARG_VALUE ? rnn_unbind(job->b, value.value) : NULL;
  if (!stmt || stmt->out_count != job->cells) {
    return NULL;
  }
  th_value **states =
      TH_NEW_ARRAY(job->call->graph->arena, th_value *, job->cells);
  for (uint32_t i = 0; i < job->cells; i++) {
    states[i] = stmt->outs[i];
  }
  return states;
}

static th_value *rnn_stacked(rnn_job *job, th_value *const *states) {
  th_arg *items = TH_NEW_ARRAY(job->call->graph->arena, th_arg, job->cells);
  for (uint32_t i = 0; i < job->cells; i++) {
    items[i] = th_v(states[i]);
  }
  return TH_BUILD(job->b, stack, th_list(job->b->ir, items, job->cells),
                  th_i(job->b->ir, 0));
}

static th_value *rnn_swap(th_builder *b, th_value *x) {
  static const int64_t order[] = {1, 0, 2};
  return TH_BUILD(b, permute, th_v(x), th_ints(b->ir, order, 3));
}

static th_status rnn_start(rnn_job *job, uint32_t *out_layers, bool *out_both) {
  th_call *call = job->call;
  bool batch_first = th_call_bool(call, "batch_first");
  int64_t layers = th_call_int(call, "num_layers");
  bool both = th_call_bool(call, "bidirectional");
  job->x = th_call_tensor(call, "input");
  job->params = th_call_arg(call, "params");
  job->has_bias = th_call_bool(call, "has_biases");
  if (!job->x || job->x->type.rank != 3 || layers < 1 || layers > 1024) {
    return rnn_malformed(job);
  }
  job->cells = (uint32_t)layers * (both ? 2 : 1);
  if (batch_first) {
    job->x = rnn_swap(job->b, job->x);
  }
  const th_expr *steps = job->x ? job->x->type.dims[0] : NULL;
  uint32_t each = job->has_bias ? 4 : 2;
  if (!steps || steps->op != TH_X_CONST || steps->i > RNN_CELLS / job->cells ||
      job->params->count != each * job->cells ||
      (th_call_bool(call, "train") && layers > 1 &&
       th_call_num(call, "dropout")->f != 0)) {
    return rnn_malformed(job);
  }
  *out_layers = (uint32_t)layers;
  *out_both = both;
  return TH_OK;
}

static th_status rnn_all(th_call *call, rnn_step step, int64_t parts) {
  rnn_job job = {.call = call, .b = call->graph->b};
  job.cell = (rnn_cell){.b = job.b,
                        .parts = parts,
                        .step = step,
                        .relu = th_call_is(call, "rnn_relu")};
  uint32_t layers = 0;
  bool both = false;
  TH_TRY(rnn_start(&job, &layers, &both));
  const th_pt2_arg *hx = th_call_arg(call, "hx");
  bool has_c = hx->kind == TH_PT2_LIST;
  if (has_c && hx->count != 2) {
    return rnn_malformed(&job);
  }
  job.h = rnn_states(&job, has_c ? &hx->items[0] : hx);
  job.c = has_c ? rnn_states(&job, &hx->items[1]) : NULL;
  if (!job.h || (has_c && !job.c)) {
    return rnn_malformed(&job);
  }
  th_value *outs[3] = {rnn_layers(&job, layers, both)};
  if (outs[0] && th_call_bool(call, "batch_first")) {
    outs[0] = rnn_swap(job.b, outs[0]);
  }
  outs[1] = rnn_stacked(&job, job.h);
  outs[2] = has_c ? rnn_stacked(&job, job.c) : NULL;
  return th_call_return_list(call, outs, has_c ? 3 : 2);
}

th_status th_aten_lstm(th_call *call) {
  return rnn_all(call, rnn_lstm_step, 4);
}

th_status th_aten_gru(th_call *call) { return rnn_all(call, rnn_gru_step, 3); }

th_status th_aten_rnn(th_call *call) {
  return rnn_all(call, rnn_plain_step, 1);
}
