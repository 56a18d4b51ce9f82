// Primitives of oneDNN 2: made for a set of sizes, kept, run by any thread.
//
// A primitive is shared by threads, so the scratchpad is always the call's:
// with one of its own it gives silently wrong results.
#include "exec/onednn_plan.h"
#include "exec/onednn_table.h"

#include "base/alloc.h"
#include "base/pool.h"

#include <string.h>

enum {
  PLAN_OPERANDS = 4 + TH_ONEDNN_POSTS, // x, y, bias, z, operands
  PLAN_KEY = PLAN_OPERANDS * (2 * TH_MAX_RANK + 1) + 1,
};

// A primitive and the shapes it was made for.
typedef struct onednn_plan {
  th_onednn_entry entry;
  int64_t key[PLAN_KEY];
  dnnl_primitive_t primitive;
  size_t scratch;
  uint32_t count;
  int roles[PLAN_OPERANDS]; // DNNL_ARG_...
  dnnl_memory_desc_t descs[PLAN_OPERANDS];
  dnnl_memory_desc_t scratch_desc;
  bool packs; // y is read in the order of `packed`
  dnnl_memory_desc_t packed;
} onednn_plan;

// A constant y in the order that the primitive likes best.  Calls read it
// without a lock, so it stays.
typedef struct onednn_pack {
  struct onednn_pack *next;
  const void *from;
  dnnl_memory_desc_t desc;
  void *data;
} onednn_pack;

struct th_onednn_plans {
  th_onednn_table table; // its lock also guards the packs
  onednn_pack *packs;    // the newest first
};

// ---- the table

static void onednn_plan_free(th_onednn_entry *entry) {
  onednn_plan *plan = (onednn_plan *)entry;
  if (plan->primitive) {
    th_onednn_get()->primitive_destroy(plan->primitive);
  }
  th_free(plan);
}

th_onednn_plans *th_onednn_plans_new(void) {
  th_onednn_plans *plans = th_calloc(1, sizeof *plans);
  if (plans) {
    th_onednn_table_init(&plans->table, onednn_plan_free);
  }
  return plans;
}

void th_onednn_plans_free(th_onednn_plans *plans) {
  if (!plans) {
    return;
  }
  while (plans->packs) {
    onednn_pack *next = plans->packs->next;
    th_free(plans->packs->data);
    th_free(plans->packs);
    plans->packs = next;
  }
  th_onednn_table_deinit(&plans->table);
  th_free(plans);
}

// ---- making

// The operand as part of the key and of the primitive.  A vector stands in the
// last of `rank` dimensions.
static th_status onednn_plan_operand(th_run *run, onednn_plan *plan, int role,
                                     const th_view *view, int rank) {
  dnnl_dims_t dims, strides;
  int lead = rank - view->rank;
  plan->key[plan->entry.key_size++] = role;
  for (int i = rank - 1; i >= 0; i--) {
    dims[i] = i < lead ? 1 : view->dims[i - lead];
    if (dims[i] > 1) {
      strides[i] = view->strides[i - lead];
    } else { // any stride is right; this one it knows
      strides[i] = i + 1 < rank ? dims[i + 1] * strides[i + 1] : 1;
    }
    plan->key[plan->entry.key_size++] = dims[i];
    plan->key[plan->entry.key_size++] = strides[i];
  }
  plan->roles[plan->count] = role;
  TH_ONEDNN_TRY(run,
                memory_desc_init_by_strides(&plan->descs[plan->count++], rank,
                                            dims, dnnl_f32, strides));
  return TH_OK;
}

static const th_view *onednn_operand_view(const th_onednn_product *p,
                                          int role) {
  switch (role) {
  case DNNL_ARG_SRC:
    return &p->x;
  case DNNL_ARG_WEIGHTS:
    return &p->y;
  case DNNL_ARG_DST:
    return &p->z;
  case DNNL_ARG_BIAS:
    return p->bias;
  default:
    return p->operands[(role & ~DNNL_ARG_SRC_1) /
                           DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE -
                       1];
  }
}

// Packed weights make everything faster where oneDNN has kernels for blocks of
// them; without AVX-512, version 2 copies them block by block and loses half of
// its speed on wide ones.
static bool onednn_packing_pays(void) {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

static th_status onednn_plan_describe(th_run *run, const th_onednn_product *p,
                                      onednn_plan *plan) {
  int rank = p->z.rank;
  plan->packs = p->y_is_constant && rank == 2 && onednn_packing_pays();
  plan->key[plan->entry.key_size++] = th_run_threads(run) * 2 + plan->packs;
  TH_TRY(onednn_plan_operand(run, plan, DNNL_ARG_SRC, &p->x, rank));
  TH_TRY(onednn_plan_operand(run, plan, DNNL_ARG_WEIGHTS, &p->y, rank));
  TH_TRY(onednn_plan_operand(run, plan, DNNL_ARG_DST, &p->z, rank));
  if (p->bias) {
    TH_TRY(onednn_plan_operand(run, plan, DNNL_ARG_BIAS, p->bias, rank));
  }
  for (uint32_t i = 0; i < p->posts->count; i++) {
    if (p->posts->items[i].is_binary) {
      int role = DNNL_ARG_ATTR_MULTIPLE_POST_OP((int)i) | DNNL_ARG_SRC_1;
      TH_TRY(onednn_plan_operand(run, plan, role, p->operands[i], rank));
    }
  }
  return TH_OK;
}

static th_status onednn_plan_posts(th_run *run, const th_onednn_product *p,
                                   const onednn_plan *plan,
                                   dnnl_post_ops_t posts) {
  uint32_t at = p->bias ? 4 : 3; // of the next binary operand
  for (uint32_t i = 0; i < p->posts->count; i++) {
    const th_onednn_post *post = &p->posts->items[i];
    if (post->is_binary) {
      TH_ONEDNN_TRY(
          run, post_ops_append_binary(posts, post->alg, &plan->descs[at++]));
    } else {
      TH_ONEDNN_TRY(run, post_ops_append_eltwise(posts, 1, post->alg,
                                                 post->alpha, post->beta));
    }
  }
  return TH_OK;
}

// Implementations called ref are a thousand times slower than a loop over the
// batch.
static th_status onednn_plan_primitive(th_run *run, const th_onednn_product *p,
                                       onednn_plan *plan,
                                       dnnl_primitive_attr_t attr,
                                       dnnl_primitive_desc_t *out_desc) {
  const th_onednn *l = th_onednn_get();
  dnnl_matmul_desc_t matmul;
  const dnnl_memory_desc_t *y = plan->packs ? &plan->packed : &plan->descs[1];
  TH_ONEDNN_TRY(run, matmul_desc_init(&matmul, &plan->descs[0], y,
                                      p->bias ? &plan->descs[3] : NULL,
                                      &plan->descs[2]));
  dnnl_status_t status =
      l->primitive_desc_create(out_desc, &matmul, attr, l->engine, NULL);
  if (status == dnnl_unimplemented) {
    return TH_UNSUPPORTED;
  }
  if (status != dnnl_success) {
    return th_onednn_error(run, "primitive_desc_create", status);
  }
  const char *name = "";
  TH_ONEDNN_TRY(
      run, primitive_desc_query(*out_desc, dnnl_query_impl_info_str, 0, &name));
  if (strncmp(name, "ref", 3) == 0) {
    return TH_UNSUPPORTED;
  }
  const dnnl_memory_desc_t *scratch =
      l->primitive_desc_query_md(*out_desc, dnnl_query_scratchpad_md, 0);
  plan->scratch = scratch ? l->memory_desc_get_size(scratch) : 0;
  plan->scratch_desc = scratch ? *scratch : (dnnl_memory_desc_t){0};
  if (plan->packs) {
    plan->packed =
        *l->primitive_desc_query_md(*out_desc, dnnl_query_weights_md, 0);
    plan->packs = !l->memory_desc_equal(&plan->packed, &plan->descs[1]);
  }
  TH_ONEDNN_TRY(run, primitive_create(&plan->primitive, *out_desc));
  return TH_OK;
}

static th_status onednn_plan_attr(th_run *run, const th_onednn_product *p,
                                  const onednn_plan *plan,
                                  dnnl_primitive_attr_t attr) {
  const th_onednn *l = th_onednn_get();
  dnnl_post_ops_t posts = NULL;
  TH_ONEDNN_TRY(
      run, primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
  TH_ONEDNN_TRY(run, post_ops_create(&posts));
  th_status status = onednn_plan_posts(run, p, plan, posts);
  if (status == TH_OK) {
    dnnl_status_t set = l->primitive_attr_set_post_ops(attr, posts);
    status = set == dnnl_success
                 ? TH_OK
                 : th_onednn_error(run, "primitive_attr_set_post_ops", set);
  }
  l->post_ops_destroy(posts);
  return status;
}

// TH_UNSUPPORTED without a diagnostic: there is no good implementation.
static th_status onednn_plan_make(th_run *run, const th_onednn_product *p,
                                  onednn_plan *plan) {
  const th_onednn *l = th_onednn_get();
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t desc = NULL;
  TH_ONEDNN_TRY(run, primitive_attr_create(&attr));
  th_status status = onednn_plan_attr(run, p, plan, attr);
  if (status == TH_OK) {
    status = onednn_plan_primitive(run, p, plan, attr, &desc);
  }
  if (desc) {
    l->primitive_desc_destroy(desc);
  }
  l->primitive_attr_destroy(attr);
  return status;
}

// The order that is packed already, or whichever the primitive likes best.
static th_status onednn_plan_order(th_run *run, th_onednn_plans *plans,
                                   const th_onednn_product *p,
                                   onednn_plan *plan) {
  pthread_mutex_lock(&plans->table.lock);
  const onednn_pack *pack = plans->packs;
  while (pack && pack->from != p->y.data) {
    pack = pack->next;
  }
  pthread_mutex_unlock(&plans->table.lock);
  if (pack) {
    plan->packed = pack->desc;
  } else {
    TH_ONEDNN_TRY(run,
                  memory_desc_init_by_tag(&plan->packed, 2, plan->descs[1].dims,
                                          dnnl_f32, dnnl_format_tag_any));
  }
  return TH_OK;
}

static th_status onednn_plan_make_best(th_run *run, th_onednn_plans *plans,
                                       const th_onednn_product *p,
                                       onednn_plan *plan) {
  if (plan->packs) {
    TH_TRY(onednn_plan_order(run, plans, p, plan));
    th_status status = onednn_plan_make(run, p, plan);
    if (status != TH_UNSUPPORTED) {
      return status;
    }
    plan->packs = false; // not with the order that is packed already
  }
  return onednn_plan_make(run, p, plan);
}

static th_status onednn_plan_get(th_run *run, th_onednn_plans *plans,
                                 const th_onednn_product *p,
                                 onednn_plan **out_plan) {
  onednn_plan *plan = th_calloc(1, sizeof *plan);
  if (!plan) {
    return th_run_error(run, TH_NO_MEMORY, "out of memory");
  }
  plan->entry.key = plan->key;
  th_status status = onednn_plan_describe(run, p, plan);
  if (status == TH_OK) {
    *out_plan =
        (onednn_plan *)th_onednn_table_find(&plans->table, &plan->entry);
  }
  if (status == TH_OK && !*out_plan) {
    status = onednn_plan_make_best(run, plans, p, plan);
    if (status == TH_OK) {
      th_onednn_table_keep(&plans->table, &plan->entry);
      *out_plan = plan;
      return TH_OK;
    }
  }
  onednn_plan_free(&plan->entry);
  return status;
}

// ---- running

typedef struct onednn_call {
  dnnl_exec_arg_t args[PLAN_OPERANDS + 1];
  uint32_t count;
  dnnl_stream_t stream;
} onednn_call;

static th_status onednn_bind(th_run *run, onednn_call *call, int role,
                             const dnnl_memory_desc_t *desc, void *data) {
  dnnl_exec_arg_t *arg = &call->args[call->count];
  arg->arg = role;
  TH_ONEDNN_TRY(
      run, memory_create(&arg->memory, desc, th_onednn_get()->engine, data));
  call->count++;
  return TH_OK;
}

static th_status onednn_reorder(th_run *run, onednn_call *call,
                                const onednn_plan *plan, const void *from,
                                void *to) {
  const th_onednn *l = th_onednn_get();
  dnnl_primitive_desc_t desc = NULL;
  dnnl_primitive_t primitive = NULL;
  TH_TRY(onednn_bind(run, call, DNNL_ARG_FROM, &plan->descs[1], (void *)from));
  TH_TRY(onednn_bind(run, call, DNNL_ARG_TO, &plan->packed, to));
  TH_ONEDNN_TRY(run,
                reorder_primitive_desc_create(&desc, &plan->descs[1], l->engine,
                                              &plan->packed, l->engine, NULL));
  dnnl_status_t status = l->primitive_create(&primitive, desc);
  l->primitive_desc_destroy(desc);
  if (status == dnnl_success) {
    status =
        l->stream_create(&call->stream, l->engine, dnnl_stream_default_flags);
  }
  if (status == dnnl_success) {
    status = l->primitive_execute(primitive, call->stream, (int)call->count,
                                  call->args);
  }
  if (primitive) {
    l->primitive_destroy(primitive);
  }
  return status == dnnl_success ? TH_OK
                                : th_onednn_error(run, "reorder", status);
}

static void onednn_call_end(onednn_call *call) {
  const th_onednn *l = th_onednn_get();
  for (uint32_t i = 0; i < call->count; i++) {
    l->memory_destroy(call->args[i].memory);
  }
  if (call->stream) {
    l->stream_destroy(call->stream);
  }
}

static th_status onednn_pack_make(th_run *run, const onednn_plan *plan,
                                  const void *from, onednn_pack **out_pack) {
  onednn_pack *pack = th_calloc(1, sizeof *pack);
  size_t size = th_onednn_get()->memory_desc_get_size(&plan->packed);
  onednn_call call = {.count = 0};
  th_status status = TH_NO_MEMORY;
  if (pack) {
    *pack = (onednn_pack){.from = from, .desc = plan->packed};
    pack->data = th_aligned_alloc(64, size);
  }
  if (pack && pack->data) {
    status = onednn_reorder(run, &call, plan, from, pack->data);
    onednn_call_end(&call);
  } else {
    th_run_error(run, status, "out of memory");
  }
  if (status == TH_OK) {
    *out_pack = pack;
    return TH_OK;
  }
  if (pack) {
    th_free(pack->data);
  }
  th_free(pack);
  return status;
}

// y in the plan's order; made by the first call.
static th_status onednn_packed(th_run *run, th_onednn_plans *plans,
                               const onednn_plan *plan, const void *from,
                               void **out_data) {
  const th_onednn *l = th_onednn_get();
  th_status status = TH_OK;
  pthread_mutex_lock(&plans->table.lock);
  onednn_pack *pack = plans->packs;
  while (pack && (pack->from != from ||
                  !l->memory_desc_equal(&pack->desc, &plan->packed))) {
    pack = pack->next;
  }
  if (!pack) {
    status = onednn_pack_make(run, plan, from, &pack);
    if (status == TH_OK) {
      pack->next = plans->packs;
      plans->packs = pack;
    }
  }
  *out_data = status == TH_OK ? pack->data : NULL;
  pthread_mutex_unlock(&plans->table.lock);
  return status;
}

static th_status onednn_execute(th_run *run, th_onednn_plans *plans,
                                const onednn_plan *plan,
                                const th_onednn_product *p, onednn_call *call) {
  const th_onednn *l = th_onednn_get();
  for (uint32_t i = 0; i < plan->count; i++) {
    bool packed = plan->packs && plan->roles[i] == DNNL_ARG_WEIGHTS;
    void *data = onednn_operand_view(p, plan->roles[i])->data;
    if (packed) {
      TH_TRY(onednn_packed(run, plans, plan, data, &data));
    }
    TH_TRY(onednn_bind(run, call, plan->roles[i],
                       packed ? &plan->packed : &plan->descs[i], data));
  }
  if (plan->scratch) {
    void *scratch = th_run_scratch(run, plan->scratch);
    if (!scratch) {
      return th_run_error(run, TH_NO_MEMORY, "out of memory");
    }
    TH_TRY(onednn_bind(run, call, DNNL_ARG_SCRATCHPAD, &plan->scratch_desc,
                       scratch));
  }
  TH_ONEDNN_TRY(
      run, stream_create(&call->stream, l->engine, dnnl_stream_default_flags));
  TH_ONEDNN_TRY(run, primitive_execute(plan->primitive, call->stream,
                                       (int)call->count, call->args));
  return TH_OK;
}

static th_status onednn_run_plan(th_run *run, th_onednn_plans *plans,
                                 const onednn_plan *plan,
                                 const th_onednn_product *p) {
  onednn_call call = {.count = 0};
  th_status status = onednn_execute(run, plans, plan, p, &call);
  onednn_call_end(&call);
  return status;
}

// The two last dimensions at one place of the batch.
static th_view onednn_matrix(const th_view *view, int batch_rank,
                             const int64_t *place) {
  th_view v = *view;
  int64_t offset = 0;
  int lead = view->rank - 2;
  for (int i = 0; i < lead; i++) {
    int64_t at = place[batch_rank - lead + i];
    offset += view->dims[i] == 1 ? 0 : at * view->strides[i];
  }
  v.data = (float *)view->data + offset;
  v.dims += lead;
  v.strides += lead;
  v.rank = 2;
  return v;
}

static th_status onednn_run_place(th_run *run, th_onednn_plans *plans,
                                  const th_onednn_product *p,
                                  const int64_t *place) {
  th_view views[TH_ONEDNN_POSTS];
  th_onednn_product one = *p;
  int batch = p->z.rank - 2;
  one.x = onednn_matrix(&p->x, batch, place);
  one.y = onednn_matrix(&p->y, batch, place);
  one.z = onednn_matrix(&p->z, batch, place);
  for (uint32_t i = 0; i < p->posts->count; i++) {
    if (p->operands[i] && p->operands[i]->rank > 2) {
      views[i] = onednn_matrix(p->operands[i], batch, place);
      one.operands[i] = &views[i];
    }
  }
  return th_onednn_run(run, plans, &one);
}

// One product after the other.
static th_status onednn_run_batch(th_run *run, th_onednn_plans *plans,
                                  const th_onednn_product *p) {
  int64_t place[TH_MAX_RANK] = {0};
  int batch = p->z.rank - 2;
  for (;;) {
    TH_TRY(onednn_run_place(run, plans, p, place));
    int dim;
    for (dim = batch - 1; dim >= 0 && ++place[dim] == p->z.dims[dim]; dim--) {
      place[dim] = 0;
    }
    if (dim < 0) {
      return TH_OK;
    }
  }
}

// With copies of operands whose rows and columns are both apart.
static th_status onednn_run_copies(th_run *run, th_onednn_plans *plans,
                                   const th_onednn_product *p) {
  int64_t strides[2 + TH_ONEDNN_POSTS][2];
  th_view views[TH_ONEDNN_POSTS];
  th_onednn_product dense = *p;
  onednn_plan *plan = NULL;
  TH_TRY(th_run_dense(run, &p->x, strides[0], &dense.x));
  TH_TRY(th_run_dense(run, &p->y, strides[1], &dense.y));
  dense.y_is_constant = false;
  for (uint32_t i = 0; i < p->posts->count; i++) {
    if (p->operands[i] && p->operands[i]->rank == 2) {
      TH_TRY(th_run_dense(run, p->operands[i], strides[2 + i], &views[i]));
      dense.operands[i] = &views[i];
    }
  }
  th_status status = onednn_plan_get(run, plans, &dense, &plan);
  if (!plan) {
    return status == TH_UNSUPPORTED
               ? th_run_error(run, status, "oneDNN has no implementation")
               : status;
  }
  status = onednn_run_plan(run, plans, plan, &dense);
  th_onednn_table_put(&plans->table, &plan->entry);
  return status;
}

th_status th_onednn_run(th_run *run, th_onednn_plans *plans,
                        const th_onednn_product *product) {
  onednn_plan *plan = NULL;
  int before = th_pool_lend(th_run_threads(run));
  th_status status = onednn_plan_get(run, plans, product, &plan);
  if (plan) {
    status = onednn_run_plan(run, plans, plan, product);
    th_onednn_table_put(&plans->table, &plan->entry);
  } else if (status == TH_UNSUPPORTED && product->z.rank > 2) {
    status = onednn_run_batch(run, plans, product);
  } else if (status == TH_UNSUPPORTED) {
    status = onednn_run_copies(run, plans, product);
  }
  th_pool_lend(before);
  return status;
}
