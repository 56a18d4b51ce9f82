// Which results are worth storing past the caches, and can be.
#include "lowering/stream.h"

bool th_stream_is_large(const th_buffer_info *b) {
  int64_t bytes = (int64_t)th_dtype_size(b->type.dtype);
  for (uint8_t d = 0; d < b->type.rank; d++) {
    if (!th_is_const(b->type.dims[d]) ||
        __builtin_mul_overflow(bytes, b->type.dims[d]->i, &bytes)) {
      return false;
    }
  }
  return bytes >= TH_STREAM_LEAST;
}

static bool stream_is_aligned(const th_expr *e, int64_t element) {
  return th_is_const(e) && e->i * element % TH_STREAM_ALIGN == 0;
}

// Every vector begins at a multiple of the alignment: the lane variable has
// stride 1 and starts at 0 or at a chunk, all other strides are multiples.
static bool stream_steps_fit(const th_plan *p, const th_store *store,
                             int64_t element) {
  th_space *s = &p->nest->space;
  const th_expr *rest = store->offset, *coeff = NULL;
  int lane = p->phases[0].lane;
  for (uint32_t v = 0; v < s->var_count; v++) {
    if (!(store->vars >> v & 1)) {
      continue;
    }
    if (!th_space_linear(s, rest, s->vars[v].symbol, &coeff, &rest)) {
      return false;
    }
    bool unit = (int)v == lane || (lane < 0 && th_is_int(coeff, 1));
    if (unit ? !th_is_int(coeff, 1) : !stream_is_aligned(coeff, element)) {
      return false;
    }
  }
  return stream_is_aligned(rest, element) &&
         p->chunk * element % TH_STREAM_ALIGN == 0;
}

static bool stream_fits(const th_plan *p, uint16_t buffer) {
  const th_nest *n = p->nest;
  int64_t element = (int64_t)th_dtype_size(n->buffers[buffer].type.dtype);
  if (!n->buffers[buffer].is_output ||
      !th_stream_is_large(&n->buffers[buffer])) {
    return false;
  }
  for (uint32_t i = 0; i < n->store_count; i++) {
    const th_store *store = &n->stores[i];
    if (store->buffer == buffer &&
        (store->kind != TH_STORE_SET || !stream_steps_fit(p, store, element))) {
      return false;
    }
  }
  return true;
}

const bool *th_stream_buffers(const th_plan *plan) {
  const th_nest *n = plan->nest;
  bool any = false;
  bool *streams = TH_NEW_ARRAY(n->arena, bool, n->buffer_count + 1);
  bool x86 =
      plan->target->isa == TH_ISA_AVX2 || plan->target->isa == TH_ISA_AVX512;
  if (!x86 || n->sequential || plan->product.reduce) {
    return NULL;
  }
  for (uint32_t i = 0; i < n->kernel->body_count; i++) {
    if (n->kernel->body[i]->in_place) {
      return NULL;
    }
  }
  for (uint32_t b = 0; b < n->buffer_count; b++) {
    streams[b] = stream_fits(plan, (uint16_t)b);
    any = any || streams[b];
  }
  return any ? streams : NULL;
}
