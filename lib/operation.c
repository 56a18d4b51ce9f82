// Operations of the user: shape rules and expansions in public terms.
#include "tracer.h"

#include "thunder/transform.h"

#include <stdio.h>
#include <string.h>

struct th_shape_query {
  th_infer *in;
  bool no_memory;
};

// ---- what a shape rule asks

static const th_arg *query_arg(const th_shape_query *q, uint32_t arg) {
  static const th_arg none = {.kind = TH_ARG_NONE};
  return arg < q->in->arg_count ? &q->in->args[arg] : &none;
}

static const th_type *query_type(const th_shape_query *q, uint32_t arg) {
  const th_arg *a = query_arg(q, arg);
  return a->kind == TH_ARG_VALUE ? &a->value->type : NULL;
}

bool th_query_is_none(const th_shape_query *q, uint32_t arg) {
  return query_arg(q, arg)->kind == TH_ARG_NONE;
}

th_dtype th_query_dtype(const th_shape_query *q, uint32_t arg) {
  const th_arg *a = query_arg(q, arg);
  return a->kind == TH_ARG_VALUE   ? a->value->type.dtype
         : a->kind == TH_ARG_NUM   ? a->num->dtype
         : a->kind == TH_ARG_DTYPE ? a->dtype
                                   : TH_DTYPE_COUNT;
}

int th_query_rank(const th_shape_query *q, uint32_t arg) {
  const th_type *type = query_type(q, arg);
  return type ? type->rank : -1;
}

const th_dim *th_query_dim(const th_shape_query *q, uint32_t arg, int dim) {
  const th_type *type = query_type(q, arg);
  dim += type && dim < 0 ? type->rank : 0;
  return type && dim >= 0 && dim < type->rank ? type->dims[dim] : NULL;
}

size_t th_query_list_count(const th_shape_query *q, uint32_t arg) {
  const th_arg *a = query_arg(q, arg);
  return a->kind == TH_ARG_LIST ? a->count : 0;
}

const th_dim *th_query_list_item(const th_shape_query *q, uint32_t arg,
                                 size_t index) {
  const th_arg *a = query_arg(q, arg);
  return a->kind == TH_ARG_LIST && index < a->count &&
                 a->items[index].kind == TH_ARG_NUM
             ? a->items[index].num
             : NULL;
}

const th_dim *th_query_number(const th_shape_query *q, uint32_t arg) {
  const th_arg *a = query_arg(q, arg);
  return a->kind == TH_ARG_NUM ? a->num : NULL;
}

// ---- sizes

typedef struct query_make {
  th_shape_query *q;
  char op;
  int64_t value;
  const th_dim *a, *b;
  const th_dim *made;
} query_make;

static th_status query_make_dim(void *user) {
  query_make *m = user;
  th_ir *ir = m->q->in->ir;
  switch (m->op) {
  case 0:
    m->made = th_int(ir, m->value);
    break;
  case '+':
    m->made = th_expr_add(ir, m->a, m->b);
    break;
  case '-':
    m->made = th_expr_sub(ir, m->a, m->b);
    break;
  case '*':
    m->made = th_expr_mul(ir, m->a, m->b);
    break;
  case '/':
    m->made = th_expr_floordiv(ir, m->a, m->b);
    break;
  default:
    break;
  }
  return TH_OK;
}

// The user's rule is on the stack: nothing may unwind through it.
static th_status query_protect(th_shape_query *q, th_status (*fn)(void *),
                               void *arg) {
  th_status status = th_protect(&q->in->ir->ctx->unwind, fn, arg);
  q->no_memory = q->no_memory || status == TH_NO_MEMORY;
  return status;
}

const th_dim *th_dim_int(th_shape_query *q, int64_t value) {
  query_make m = {q, 0, value, NULL, NULL, NULL};
  return query_protect(q, query_make_dim, &m) ? NULL : m.made;
}

const th_dim *th_dim_make(th_shape_query *q, char op, const th_dim *a,
                          const th_dim *b) {
  query_make m = {q, op, 0, a, b, NULL};
  return !a || !b || query_protect(q, query_make_dim, &m) ? NULL : m.made;
}

int64_t th_dim_value(const th_dim *dim) {
  return dim && th_is_const(dim) && dim->dtype != TH_F64 ? dim->i : -1;
}

// ---- results

typedef struct query_out {
  th_shape_query *q;
  th_dtype dtype;
  int rank;
  const th_dim *const *dims;
} query_out;

static th_status query_add(void *user) {
  const query_out *o = user;
  th_infer *in = o->q->in;
  if (o->rank < 0 || o->rank > TH_MAX_RANK || in->out_count == in->out_cap) {
    return th_infer_error(in, TH_INVALID,
                          "the shape rule gives a result of %d dimensions, or "
                          "too many results",
                          o->rank);
  }
  const th_expr **dims =
      TH_NEW_ARRAY(&in->ir->arena, const th_expr *, o->rank + 1);
  for (int i = 0; i < o->rank; i++) {
    if (!o->dims[i]) {
      return o->q->no_memory
                 ? TH_NO_MEMORY
                 : th_infer_error(in, TH_SHAPE,
                                  "dimension %d of the result cannot be "
                                  "computed",
                                  i);
    }
    dims[i] = o->dims[i];
  }
  th_type type = th_tensor_type(o->dtype, (uint8_t)o->rank, dims);
  for (uint32_t i = 0; i < in->arg_count; i++) {
    if (in->args[i].kind == TH_ARG_VALUE) {
      type.device = in->args[i].value->type.device;
      break;
    }
  }
  in->outs[in->out_count++] = type;
  return TH_OK;
}

th_status th_query_out(th_shape_query *q, th_dtype dtype, int rank,
                       const th_dim *const *dims) {
  query_out o = {q, dtype, rank, dims};
  return query_protect(q, query_add, &o);
}

th_status th_query_out_like(th_shape_query *q, uint32_t arg) {
  const th_type *type = query_type(q, arg);
  if (!type) {
    return th_query_error(q, TH_INVALID, "argument %u is no tensor", arg);
  }
  return th_query_out(q, type->dtype, type->rank, type->dims);
}

typedef struct query_same {
  th_shape_query *q;
  const th_dim *a, *b;
  bool same;
} query_same;

static th_status query_compare(void *user) {
  query_same *s = user;
  const th_expr *joined = NULL;
  s->same = th_infer_same_dim(s->q->in, s->a, s->b, &joined);
  return TH_OK;
}

bool th_query_same(th_shape_query *q, const th_dim *a, const th_dim *b) {
  query_same s = {q, a, b, false};
  return a && b && query_protect(q, query_compare, &s) == TH_OK && s.same;
}

typedef struct query_report {
  th_shape_query *q;
  th_status status;
  const char *text;
} query_report;

static th_status query_tell(void *user) {
  const query_report *r = user;
  return th_infer_error(r->q->in, r->status, "%s", r->text);
}

th_status th_query_error(th_shape_query *q, th_status status, const char *fmt,
                         ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  query_report report = {q, status, text};
  return query_protect(q, query_tell, &report);
}

// ---- rules made of the user's functions

static th_status operation_outs(const th_operation *o, th_tracer *t,
                                const th_stmt *stmt, th_value **outs) {
  th_status status = o->expand(t, stmt, outs, o->user);
  TH_TRY(t->b->status);
  if (status != TH_OK) {
    return th_error(t->b->ir->ctx, status, stmt->loc,
                    "%s: its expansion "
                    "failed: %s",
                    o->name, th_status_text(status));
  }
  for (uint32_t i = 0; i < o->out_count; i++) {
    if (!outs[i]) {
      return th_error(t->b->ir->ctx, TH_INVALID, stmt->loc,
                      "%s: its expansion does not set result %u", o->name, i);
    }
  }
  return TH_OK;
}

// The types of an expansion that is thrown away.
static th_status operation_infer_expanded(th_infer *in, const th_operation *o) {
  th_builder b;
  th_tracer t;
  th_stmt stmt = {.op = in->op,
                  .arg_count = (uint16_t)in->arg_count,
                  .out_count = (uint16_t)o->out_count,
                  .scope = in->scope,
                  .loc = in->loc};
  stmt.args = TH_NEW_ARRAY(&in->ir->arena, th_arg, in->arg_count + 1);
  memcpy(stmt.args, in->args, in->arg_count * sizeof *stmt.args);
  th_value **outs = TH_NEW_ARRAY(&in->ir->arena, th_value *, o->out_count + 1);
  th_builder_init(&b, th_trace_new(in->ir, "types"));
  b.scope = in->scope;
  b.loc = in->loc;
  th_tracer_wrap(&t, &b);
  t.is_placed = t.only_types = true;
  TH_TRY(operation_outs(o, &t, &stmt, outs));
  for (uint32_t i = 0; i < o->out_count; i++) {
    in->outs[in->out_count++] = outs[i]->type;
  }
  return TH_OK;
}

static th_status operation_infer(th_infer *in) {
  const th_operation *o = in->op->user;
  if (!o->shape) {
    return operation_infer_expanded(in, o);
  }
  th_shape_query q = {in, false};
  uint64_t errors = th_error_count(in->ir->ctx);
  th_status status = o->shape(&q, o->user);
  if (q.no_memory) {
    return TH_NO_MEMORY;
  }
  if (status != TH_OK && th_error_count(in->ir->ctx) == errors) {
    return th_infer_error(in, status, "its shape rule failed: %s",
                          th_status_text(status));
  }
  TH_TRY(status);
  return in->out_count == o->out_count
             ? TH_OK
             : th_infer_error(in, TH_INVALID,
                              "its shape rule gives %u results, not %u",
                              in->out_count, o->out_count);
}

static th_status operation_expand(th_builder *b, const th_stmt *stmt,
                                  th_value **outs) {
  th_tracer t;
  th_tracer_wrap(&t, b);
  t.is_placed = true;
  return operation_outs(stmt->op->user, &t, stmt, outs);
}

// ---- registering

typedef struct operation_args {
  th_context *ctx;
  const th_operation *operation;
} operation_args;

static th_status operation_register(void *user) {
  const operation_args *a = user;
  th_context *ctx = a->ctx;
  th_operation o = TH_OPERATION_INIT;
  size_t n = a->operation->size;
  memcpy(&o, a->operation, n < sizeof o ? n : sizeof o);
  if (!o.name || !o.schema || (!o.shape && !o.expand) ||
      o.out_count > TH_MAX_OUTS) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "operation '%s': it needs a name, a schema, a shape rule "
                    "or an expansion, and at most %d results",
                    o.name ? o.name : "", TH_MAX_OUTS);
  }
  th_operation *copy = TH_NEW(&ctx->arena, th_operation);
  *copy = o;
  copy->name = th_arena_strdup(&ctx->arena, o.name);
  const th_op_info *row = NULL;
  return th_op_register(
      ctx,
      &(th_user_op){.name = o.name,
                    .schema = o.schema,
                    .outs = (uint8_t)o.out_count,
                    .traits = o.has_effect ? TH_EFFECT : 0,
                    .infer = operation_infer,
                    .expand = o.expand ? operation_expand : NULL,
                    .user = copy},
      &row);
}

th_status th_operation_register(th_context *ctx,
                                const th_operation *operation) {
  operation_args args = {ctx, operation};
  return th_protect(&ctx->unwind, operation_register, &args);
}
