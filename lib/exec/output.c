// Results of a call: memory before the steps, tensors and write-backs after.
#include "exec/program_impl.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

// Most storages lie apart, which is seen at once.
static bool output_meets(const th_tensor *a, const th_tensor *b) {
  const th_storage *s = a->storage, *t = b->storage;
  return s->data < t->data + t->size && t->data < s->data + s->size &&
         th_tensor_overlaps(a, b);
}

// The buffer's memory is the caller's tensor when that is what the leaf is: all
// of the buffer, row-major, and nobody's input.
static bool output_fits(const th_frame *call, const th_value *value,
                        const th_tensor *t) {
  const th_view *v = &call->sizes->views[value->id];
  if (t->dtype != v->dtype || t->rank != v->rank ||
      call->program->windows[value->id].from) {
    return false;
  }
  for (int d = 0; d < t->rank; d++) {
    if (t->dims[d] != v->dims[d] ||
        (t->dims[d] != 1 && t->strides[d] != v->strides[d])) {
      return false;
    }
  }
  for (uint32_t i = 0; i < call->program->trace->input_count; i++) {
    if (call->inputs[i].kind == TH_KIND_TENSOR && call->inputs[i].tensor &&
        output_meets(call->inputs[i].tensor, t)) {
      return false;
    }
  }
  return true;
}

static void output_use_given(th_frame *call, const th_value *value,
                             th_tensor *given) {
  uint32_t base = call->program->base_of[value->id];
  if (!call->owned[base] && base != TH_BASE_SLAB && !value->input &&
      output_fits(call, value, given)) {
    call->owned[base] = th_tensor_retain(given);
    call->block->bases[base] = given->data;
  }
}

static th_status output_check_given(th_frame *call, uint32_t leaf) {
  const th_arg *arg = call->program->leaves[leaf];
  const th_tensor *t = call->outputs[leaf].tensor;
  if (arg->kind != TH_ARG_VALUE) {
    return th_error(call->ctx, TH_INVALID, TH_NOWHERE, "output %u is no tensor",
                    leaf);
  }
  const th_view *v = &call->sizes->views[arg->value->id];
  bool same = t->dtype == v->dtype && t->rank == v->rank;
  for (int d = 0; same && d < t->rank; d++) {
    same = t->dims[d] == v->dims[d];
  }
  return same ? TH_OK
              : th_error(call->ctx, TH_SHAPE, TH_NOWHERE,
                         "the tensor for output %u has another dtype or shape "
                         "than the result",
                         leaf);
}

static uint32_t output_input_index(const th_program *p, const th_value *in) {
  return p->base_of[in->id] - 1; // bases of inputs follow the slab
}

th_status th_outputs_check(th_frame *call) {
  const th_program *p = call->program;
  char what[256];
  for (uint32_t i = 0; i < p->leaf_count; i++) {
    if (call->outputs[i].tensor) {
      snprintf(what, sizeof what, "output %u", i);
      TH_TRY(th_tensor_check_target(call->ctx, what, call->outputs[i].tensor));
    }
  }
  for (uint32_t i = 0; i < p->mutated_count; i += 2) {
    const th_value *in = p->mutated[i];
    uint32_t input = output_input_index(p, in);
    snprintf(what, sizeof what, "input '%s', which the call changes", in->name);
    TH_TRY(th_tensor_check_target(call->ctx, what, call->inputs[input].tensor));
  }
  return TH_OK;
}

th_status th_outputs_prepare(th_frame *call) {
  th_program *p = call->program;
  for (uint32_t i = 0; i < p->leaf_count; i++) {
    if (call->outputs[i].tensor) {
      TH_TRY(output_check_given(call, i));
      output_use_given(call, p->leaves[i]->value, call->outputs[i].tensor);
    }
  }
  for (uint32_t i = 0; i < p->buffers.count; i++) {
    uint32_t base = p->base_of_buffer[i];
    if (base == TH_BASE_SLAB || call->owned[base]) {
      continue;
    }
    const th_view *v = &call->sizes->views[p->buffers.owner[i]->id];
    TH_TRY(th_tensor_empty(call->ctx, v->dtype, v->rank, v->dims,
                           &call->owned[base]));
    call->block->bases[base] = call->owned[base]->data;
  }
  return TH_OK;
}

// ---- afterwards

static th_status output_window(th_frame *call, const th_value *value,
                               th_tensor **out) {
  const th_view *v = th_call_view(call, value);
  return th_tensor_from_data(call->ctx, v->data, v->dtype, v->rank, v->dims,
                             v->strides, NULL, NULL, out);
}

static bool output_is_whole(const th_tensor *holder, const th_view *v) {
  bool same = v->data == holder->data && v->rank == holder->rank;
  for (int d = 0; same && d < v->rank; d++) {
    same = v->dims[d] == holder->dims[d] && v->strides[d] == holder->strides[d];
  }
  return same && v->dtype == holder->dtype;
}

// What a value is, as a tensor of the caller's.
static th_status output_tensor(th_frame *call, const th_value *value,
                               th_tensor **out) {
  th_program *p = call->program;
  uint32_t base = p->base_of[value->id];
  const th_view *v = th_call_view(call, value);
  th_tensor *holder = call->owned[base];
  th_tensor *window = NULL;
  if (holder && output_is_whole(holder, v)) {
    *out = th_tensor_retain(holder);
    return TH_OK;
  }
  if (holder) {
    int64_t bytes = (char *)v->data - holder->data, numel = 1;
    for (int d = 0; d < v->rank; d++) {
      numel *= v->dims[d];
    }
    // A window without elements may begin past the end.
    int64_t offset = numel ? bytes / (int64_t)th_dtype_size(v->dtype) : 0;
    return th_tensor_view(call->ctx, holder, v->rank, v->dims, v->strides,
                          offset, out);
  }
  // An input (or a window on one), or memory of the slab: a copy.
  TH_TRY(output_window(call, value, &window));
  th_status status =
      th_tensor_empty(call->ctx, v->dtype, v->rank, v->dims, out);
  if (status == TH_OK) {
    status = th_tensor_copy(call->ctx, *out, window);
  }
  th_tensor_release(window);
  return status;
}

static th_status output_leaf(th_frame *call, uint32_t leaf,
                             th_program_value *made) {
  const th_arg *arg = call->program->leaves[leaf];
  made->kind = TH_KIND_NONE;
  if (arg->kind == TH_ARG_NUM) {
    made->kind = TH_KIND_NUMBER;
    return th_expr_eval(arg->num, call->sizes->symbols, &made->num)
               ? TH_OK
               : th_error(call->ctx, TH_INVALID, TH_NOWHERE,
                          "output %u divides by zero", leaf);
  }
  if (arg->kind == TH_ARG_STRING) {
    made->kind = TH_KIND_STRING;
  }
  if (arg->kind != TH_ARG_VALUE) {
    return TH_OK;
  }
  if (arg->value->type.kind == TH_KIND_NUMBER) {
    made->kind = TH_KIND_NUMBER;
    th_expr_eval(arg->value->type.num, call->sizes->symbols, &made->num);
    return TH_OK;
  }
  made->kind = TH_KIND_TENSOR;
  return output_tensor(call, arg->value, &made->tensor);
}

// ---- write-backs: last, so that a call that fails changes nothing

// Copies of values that lie in the memory of an input, which an earlier
// write-back may change.
static th_status output_snapshots(th_frame *call, th_tensor **snapshots) {
  th_program *p = call->program;
  for (uint32_t i = 0; i < p->mutated_count; i += 2) {
    const th_value *now = p->mutated[i + 1];
    uint32_t base = p->base_of[now->id];
    bool in_input = base != TH_BASE_SLAB && base <= p->trace->input_count;
    if (!in_input || p->base_of[p->mutated[i]->id] == base) {
      TH_TRY(output_window(call, now, &snapshots[i / 2]));
      continue;
    }
    const th_view *v = th_call_view(call, now);
    th_tensor *window = NULL;
    TH_TRY(output_window(call, now, &window));
    th_status status = th_tensor_empty(call->ctx, v->dtype, v->rank, v->dims,
                                       &snapshots[i / 2]);
    if (status == TH_OK) {
      status = th_tensor_copy(call->ctx, snapshots[i / 2], window);
    }
    th_tensor_release(window);
    TH_TRY(status);
  }
  return TH_OK;
}

static th_status output_write_back(th_frame *call, th_tensor **snapshots) {
  th_program *p = call->program;
  for (uint32_t i = 0; i < p->mutated_count; i += 2) {
    uint32_t input = output_input_index(p, p->mutated[i]);
    th_tensor *to = call->inputs[input].tensor;
    th_tensor *from = snapshots[i / 2];
    if (from->data != to->data || call->input_copies[input]) {
      TH_TRY(th_tensor_copy(call->ctx, to, from));
    }
  }
  return TH_OK;
}

// Copies made values into the tensors given for them; what is new goes to the
// caller when nothing can fail any more.
static th_status output_fill_given(th_frame *call, th_program_value *made) {
  for (uint32_t i = 0; i < call->program->leaf_count; i++) {
    th_tensor *given = call->outputs[i].tensor;
    const th_tensor *from = made[i].tensor;
    if (given && from && given->data != from->data) {
      TH_TRY(th_tensor_copy(call->ctx, given, from));
    }
  }
  return TH_OK;
}

static void output_hand_over(th_frame *call, th_program_value *made) {
  for (uint32_t i = 0; i < call->program->leaf_count; i++) {
    if (call->outputs[i].tensor) {
      call->outputs[i].kind = TH_KIND_TENSOR;
    } else {
      call->outputs[i] = made[i];
      made[i].tensor = NULL;
    }
  }
}

static th_status output_mutate(th_frame *call, th_program_value *made) {
  enum { FEW = 64 };
  th_tensor *few[FEW] = {0};
  uint32_t n = call->program->mutated_count / 2;
  th_tensor **snapshots = n <= FEW ? few : th_calloc(n, sizeof *snapshots);
  if (!snapshots) {
    return th_error(call->ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  th_status status = output_snapshots(call, snapshots);
  if (status == TH_OK) {
    status = output_fill_given(call, made);
  }
  if (status == TH_OK) {
    status = output_write_back(call, snapshots);
  }
  for (uint32_t i = 0; i < n; i++) {
    th_tensor_release(snapshots[i]);
  }
  if (snapshots != few) {
    th_free(snapshots);
  }
  return status;
}

// Was this memory handed out for an earlier result?  Of a branch, also as a
// part of it: the trace around takes each result for memory of its own.
static bool output_is_shared(const th_frame *call, uint32_t leaf) {
  const th_program *p = call->program;
  const th_arg *arg = p->leaves[leaf];
  for (uint32_t i = 0; i < leaf && arg->kind == TH_ARG_VALUE; i++) {
    const th_arg *other = p->leaves[i];
    if (other->kind == TH_ARG_VALUE &&
        (other->value == arg->value ||
         (call->inherit &&
          p->base_of[other->value->id] == p->base_of[arg->value->id]))) {
      return true;
    }
  }
  return false;
}

static th_status output_unshare(th_frame *call, th_tensor **tensor) {
  th_tensor *own = NULL, *shared = *tensor;
  TH_TRY(th_tensor_empty(call->ctx, shared->dtype, shared->rank, shared->dims,
                         &own));
  *tensor = own;
  th_status status = th_tensor_copy(call->ctx, own, shared);
  th_tensor_release(shared);
  return status;
}

static th_status output_all(th_frame *call, th_program_value *made) {
  uint32_t n = call->program->leaf_count;
  for (uint32_t i = 0; i < n; i++) {
    TH_TRY(output_leaf(call, i, &made[i]));
    if (made[i].tensor && output_is_shared(call, i)) {
      TH_TRY(output_unshare(call, &made[i].tensor));
    }
  }
  TH_TRY(call->program->mutated_count ? output_mutate(call, made)
                                      : output_fill_given(call, made));
  output_hand_over(call, made);
  return TH_OK;
}

th_status th_outputs_finish(th_frame *call) {
  enum { FEW = 32 };
  th_program_value few[FEW];
  uint32_t n = call->program->leaf_count;
  th_program_value *made = n <= FEW ? few : th_malloc(n * sizeof *made);
  if (!made) {
    return th_error(call->ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  memset(made, 0, n * sizeof *made);
  th_status status = output_all(call, made);
  for (uint32_t i = 0; i < n; i++) {
    th_tensor_release(made[i].tensor);
  }
  if (made != few) {
    th_free(made);
  }
  return status;
}
