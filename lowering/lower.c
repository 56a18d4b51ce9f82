// From a kernel statement to code: key, cache, nest, plan, module, object.
#include "lowering/lower.h"

#include "base/alloc.h"
#include "base/sha256.h"
#include "lowering/cache.h"
#include "lowering/canonical.h"
#include "lowering/gen.h"
#include "lowering/nest.h"
#include "lowering/runtime.h"

#include <stdlib.h>
#include <string.h>

typedef struct lower_impl {
  th_kernel kernel; // first: a th_kernel is its lower_impl
  th_code *code;
  th_arena arena;
} lower_impl;

// ---- what a region can hold

static bool lower_types_fit(const th_stmt *stmt, const char **reason) {
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    const th_value *out = stmt->outs[i];
    if (out &&
        (out->type.kind != TH_KIND_TENSOR || out->type.device.type != TH_CPU)) {
      *reason = "a result is no tensor on the CPU";
      return false;
    }
  }
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    const th_arg *arg = &stmt->args[i];
    if (arg->kind == TH_ARG_VALUE && arg->value->type.kind == TH_KIND_TENSOR &&
        arg->value->type.device.type != TH_CPU) {
      *reason = "an operand is not on the CPU";
      return false;
    }
  }
  return true;
}

// min == max asks for the least and the largest element.
static bool lower_histc_has_range(const th_stmt *stmt) {
  const th_expr *low = stmt->args[2].num, *high = stmt->args[3].num;
  return th_is_const(low) && th_is_const(high) && low != high;
}

bool th_lower_supports(const th_stmt *stmt, const char **reason) {
  *reason = NULL;
  if (!th_nest_rule(stmt->op->op) && !th_nest_special(stmt->op->op)) {
    *reason = stmt->op->traits & TH_COMPOSITE ? "is expanded first"
                                              : "has no kernel on the host";
    return false;
  }
  if (stmt->op->op == TH_OP_histc && !lower_histc_has_range(stmt)) {
    *reason = "its range depends on the data";
    return false;
  }
  return lower_types_fit(stmt, reason);
}

// ---- code

typedef struct lower_work {
  th_context *ctx;
  th_arena arena;
  const th_stmt *kernel;
  const th_target *target;
  const char *symbol;
  LLVMModuleRef module;
  th_codegen *codegen;
} lower_work;

static th_status lower_module(lower_work *w) {
  th_nest *nest = NULL;
  th_plan plan;
  TH_TRY(th_codegen_new(w->ctx, w->target, &w->codegen));
  th_arena_defer(&w->arena, th_codegen_release, w->codegen);
  TH_TRY(th_nest_build(w->ctx, &w->arena, w->kernel, &nest));
  TH_TRY(th_plan_make(nest, w->target, &plan));
  return th_gen_module(w->ctx, w->codegen, &plan, w->symbol, &w->module);
}

typedef struct lower_use {
  lower_work *work;
  th_status (*use)(lower_work *w, void *user);
  void *user;
} lower_use;

static th_status lower_build_and_use(void *user) {
  lower_use *u = user;
  TH_TRY(lower_module(u->work));
  return u->use(u->work, u->user);
}

// Runs with an arena of its own, which goes whatever happens.
static th_status lower_with_module(lower_work *w,
                                   th_status (*use)(lower_work *w, void *user),
                                   void *user) {
  th_arena_init(&w->arena, &w->ctx->unwind);
  lower_use u = {w, use, user};
  th_status status = th_protect(&w->ctx->unwind, lower_build_and_use, &u);
  th_arena_deinit(&w->arena);
  return status;
}

static th_status lower_use_object(lower_work *w, void *user) {
  return th_codegen_object(w->ctx, w->codegen, w->module, user);
}

static th_status lower_build(th_context *ctx, void *user, const char *symbol,
                             th_bytes *out_object) {
  const lower_work *given = user;
  lower_work w = {.ctx = ctx,
                  .kernel = given->kernel,
                  .target = given->target,
                  .symbol = symbol};
  return lower_with_module(&w, lower_use_object, out_object);
}

// ---- the description that the kernel gives of itself (gen.c)

static th_expr *lower_constant(lower_impl *impl, int64_t i) {
  th_expr *e = TH_NEW(&impl->arena, th_expr);
  *e = (th_expr){.op = TH_X_CONST, .dtype = TH_I64, .i = i};
  return e;
}

// One number in prefix notation; evaluated, never compared, so that it needs
// no th_ir.
static const th_expr *lower_read_number(lower_impl *impl, const char **at,
                                        const th_expr *const *symbols) {
  char *end = NULL;
  while (**at == ' ') {
    (*at)++;
  }
  if (**at == '$') {
    unsigned long i = strtoul(*at + 1, &end, 10);
    *at = end;
    return symbols[i];
  }
  if (**at != '#') {
    long long i = strtoll(*at, &end, 10);
    *at = end;
    return lower_constant(impl, i);
  }
  th_expr *e = TH_NEW(&impl->arena, th_expr);
  e->op = (th_expr_op)strtoul(*at + 1, &end, 10);
  e->dtype = TH_I64;
  e->arg_count = (uint32_t)strtoul(end + 1, &end, 10);
  *at = end;
  const th_expr **args =
      TH_NEW_ARRAY(&impl->arena, const th_expr *, e->arg_count);
  for (uint32_t i = 0; i < e->arg_count; i++) {
    args[i] = lower_read_number(impl, at, symbols);
  }
  e->args = args;
  return e;
}

static void lower_ask(lower_impl *impl, const th_expr *const *symbols) {
  th_kernel *k = &impl->kernel;
  th_kernel_error answer = {0};
  k->fn(NULL, NULL, TH_GEN_QUESTION, 0, &answer);
  const char *text = (const char *)(uintptr_t)answer.value;
  char *end = NULL;
  k->grain = strtoll(text, &end, 10);
  text = end;
  k->extent = lower_read_number(impl, &text, symbols);
}

static void lower_list_buffers(lower_impl *impl, const th_stmt *kernel) {
  uint32_t room = (uint32_t)kernel->arg_count + kernel->out_count + 1;
  th_value **buffers = TH_NEW_ARRAY(&impl->arena, th_value *, room);
  uint32_t count = 0;
  for (uint16_t i = 0; i < kernel->arg_count; i++) {
    const th_arg *arg = &kernel->args[i];
    if (arg->kind == TH_ARG_VALUE && arg->value->type.kind == TH_KIND_TENSOR) {
      buffers[count++] = arg->value;
    }
  }
  for (uint16_t i = 0; i < kernel->out_count; i++) {
    if (kernel->outs[i]) {
      buffers[count++] = kernel->outs[i];
    }
  }
  impl->kernel.buffers = buffers;
  impl->kernel.buffer_count = count;
}

// ---- kernels

typedef struct lower_many {
  th_context *ctx;
  th_arena arena;
  const th_target *target;
  const th_stmt *const *stmts;
  uint32_t count;
  int threads;
  th_kernel **kernels;
  lower_work *works;           // for the builders
  th_kernel_request *requests; // the first of each key before those like it
  uint32_t *order;             // requests[i] is for kernels[order[i]]
} lower_many;

static th_status lower_describe(lower_many *m, uint32_t i, uint8_t key[32]) {
  lower_impl *impl = th_calloc(1, sizeof *impl);
  if (!impl) {
    return th_error(m->ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  th_arena_init(&impl->arena, &m->ctx->unwind);
  impl->kernel.impl = impl;
  m->kernels[i] = &impl->kernel;
  const th_expr **symbols = NULL;
  th_buffer text;
  th_buffer_init(&text, &m->arena);
  th_canonical_kernel(&impl->arena, m->stmts[i], m->target, &text, &symbols,
                      &impl->kernel.number_count);
  th_sha256(text.data, text.size, key);
  impl->kernel.numbers = symbols;
  lower_list_buffers(impl, m->stmts[i]);
  return TH_OK;
}

// Nobody waits for a kernel that another thread builds while there is one that
// nobody builds.
static th_status lower_requests(lower_many *m) {
  th_map seen;
  th_map_init(&seen, &m->arena);
  uint32_t first = 0, again = m->count;
  for (uint32_t i = 0; i < m->count; i++) {
    uint8_t key[32];
    TH_TRY(lower_describe(m, i, key));
    bool known = th_map_get_bytes(&seen, key, sizeof key);
    th_map_put_bytes(&seen, key, sizeof key, m);
    uint32_t at = known ? --again : first++;
    const char *label = m->stmts[i]->label;
    m->order[at] = i;
    m->works[at] = (lower_work){.kernel = m->stmts[i], .target = m->target};
    m->requests[at] = (th_kernel_request){.label = label ? label : "kernel",
                                          .build = lower_build,
                                          .user = &m->works[at]};
    memcpy(m->requests[at].key, key, sizeof key);
  }
  return TH_OK;
}

static th_status lower_kernels(void *user) {
  lower_many *m = user;
  m->works = TH_NEW_ARRAY(&m->arena, lower_work, m->count);
  m->requests = TH_NEW_ARRAY(&m->arena, th_kernel_request, m->count);
  m->order = TH_NEW_ARRAY(&m->arena, uint32_t, m->count);
  TH_TRY(lower_requests(m));
  TH_TRY(th_kernel_cache_get_many(m->ctx, m->requests, m->count, m->threads));
  for (uint32_t i = 0; i < m->count; i++) {
    lower_impl *impl = m->kernels[m->order[i]]->impl;
    void *address = th_code_address(m->requests[i].code);
    impl->code = m->requests[i].code;
    memcpy(&impl->kernel.fn, &address, sizeof address);
  }
  for (uint32_t i = 0; i < m->count; i++) {
    lower_ask(m->kernels[i]->impl, m->kernels[i]->numbers);
  }
  return TH_OK;
}

th_status th_lower_kernels(th_context *ctx, const th_stmt *const *stmts,
                           uint32_t count, int threads,
                           th_kernel **out_kernels) {
  lower_many m = {.ctx = ctx,
                  .stmts = stmts,
                  .count = count,
                  .threads = threads,
                  .kernels = out_kernels};
  if (!count) {
    return TH_OK; // and no code generator is woken
  }
  memset(out_kernels, 0, count * sizeof *out_kernels);
  TH_TRY(th_lower_runtime(ctx));
  TH_TRY(th_target_get(ctx, NULL, &m.target));
  if (!m.target->runs_here) {
    return th_error(ctx, TH_UNSUPPORTED, TH_NOWHERE,
                    "target '%s': this machine cannot run its code",
                    m.target->name);
  }
  th_arena_init(&m.arena, &ctx->unwind);
  th_status status = th_protect(&ctx->unwind, lower_kernels, &m);
  th_arena_deinit(&m.arena);
  for (uint32_t i = 0; status != TH_OK && i < count; i++) {
    th_lower_kernel_release(out_kernels[i]);
    out_kernels[i] = NULL;
  }
  return status;
}

void th_lower_kernel_release(th_kernel *kernel) {
  if (!kernel) {
    return;
  }
  lower_impl *impl = kernel->impl;
  th_code_release(impl->code);
  th_arena_deinit(&impl->arena);
  th_free(impl);
}

// ---- texts

typedef struct lower_text {
  th_lower_text_kind kind;
  th_buffer *out;
} lower_text;

static th_status lower_use_text(lower_work *w, void *user) {
  lower_text *text = user;
  th_bytes bytes = {0};
  th_status status = th_codegen_optimize(w->ctx, w->codegen, w->module);
  if (status == TH_OK) {
    status = text->kind == TH_LOWER_ASM
                 ? th_codegen_asm(w->ctx, w->codegen, w->module, &bytes)
                 : th_codegen_ir(w->ctx, w->module, &bytes);
  }
  if (status == TH_OK) {
    th_arena_defer(&w->arena, th_free, bytes.data);
    th_buffer_append(text->out, bytes.data, bytes.size);
  }
  return status;
}

th_status th_lower_text(th_context *ctx, const th_stmt *kernel,
                        th_lower_text_kind kind, th_buffer *out) {
  lower_work w = {.ctx = ctx, .kernel = kernel, .symbol = kernel->label};
  lower_text text = {kind, out};
  TH_TRY(th_lower_runtime(ctx));
  TH_TRY(th_target_get(ctx, NULL, &w.target));
  return lower_with_module(&w, lower_use_text, &text);
}
