// Memory plan: gives each buffer of a trace with known sizes its offset in the
// slab.  With symbolic sizes the program plans for each size it meets, by the
// same rules; the trace then carries no offsets.
#include "passes/pass.h"
#include "passes/slab.h"

// From the first byte to the last one that the strides reach.
static bool plan_bytes(th_ir *ir, const th_type *type, int64_t *out) {
  const th_expr *last = th_int(ir, 0), *one = th_int(ir, 1);
  const th_expr *numel = th_type_numel(ir, type);
  for (uint8_t d = 0; d < type->rank; d++) {
    const th_expr *steps = th_expr_sub(ir, type->dims[d], one);
    last = th_expr_add(ir, last,
                       th_expr_mul(ir, steps, th_type_stride(ir, type, d)));
  }
  if (!last || !numel || !th_is_const(last) || !th_is_const(numel)) {
    return false;
  }
  return !__builtin_mul_overflow(numel->i ? last->i + 1 : 0,
                                 (int64_t)th_dtype_size(type->dtype), out);
}

static th_status plan_copy(const th_trace *in, th_trace **out) {
  th_builder b;
  th_remap m;
  *out = th_remap_begin(&m, in, &b);
  for (uint32_t i = 0; i < in->stmt_count && b.status == TH_OK; i++) {
    th_remap_stmt(&m, in->stmts[i]);
  }
  th_slab_forget(*out); // an earlier plan says nothing about this trace
  return th_remap_end(&m);
}

th_status th_pass_plan(th_pipeline *p, const th_trace *in, th_trace **out) {
  th_slab_buffers buffers;
  TH_TRY(plan_copy(in, out));
  th_slab_find(*out, &buffers);
  th_slab_item *items =
      TH_NEW_ARRAY(&p->ir->arena, th_slab_item, buffers.count + 1);
  uint32_t *buffer_of_item =
      TH_NEW_ARRAY(&p->ir->arena, uint32_t, buffers.count + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < buffers.count; i++) {
    if (buffers.last[i] == UINT32_MAX) {
      continue;
    }
    items[n] = (th_slab_item){0, buffers.first[i], buffers.last[i], 0};
    if (!plan_bytes(p->ir, &buffers.owner[i]->type, &items[n].size)) {
      return TH_OK; // sizes are known when a call comes
    }
    buffer_of_item[n++] = i;
  }
  int64_t size = th_slab_plan(&p->ir->arena, items, n);
  if (size < 0) {
    return th_error(p->ir->ctx, TH_SHAPE, TH_NOWHERE,
                    "the results do not fit into an address space");
  }
  for (uint32_t i = 0; i < n; i++) {
    buffers.owner[buffer_of_item[i]]->slab = items[i].offset;
  }
  (*out)->slab_size = size;
  return TH_OK;
}
