// Executors from the inside: what claim, fuse and the program ask of them.
#ifndef TH_EXEC_EXECUTOR_H
#define TH_EXEC_EXECUTOR_H

#include "ir/trace.h"
#include "thunder/executor.h"

// The statements of one region, as the fuse pass found them.
typedef struct th_fusion {
  th_builder *to; // where the region statement is appended
  th_remap *remap;
  th_stmt *const *stmts; // of the old trace, in order
  uint32_t count;
  th_value *const *outs; // old values that are needed outside, in order
  uint32_t out_count;
  const char *executor;    // "host"
  uint32_t *region_number; // of the trace, counts up: hostFusion<N>
  uint32_t *kernel_number;
} th_fusion;

typedef struct th_executor th_executor;
struct th_executor {
  const char *name;
  const char *version;
  bool builtin;
  th_map claims; // operation name -> const th_claim *
  const th_state_hooks *state;
  // A fusing executor: may this statement be part of a region; and the region.
  th_check_fn can_fuse;
  const th_executor *like; // accepts what this one takes, and compiles it
  th_check_fn anchors;     // NULL: a region needs none
  th_status (*fuse)(const th_executor *executor, th_fusion *fusion);
  // An executor of chains: a region is a statement that can_fuse accepts and
  // those behind it, each the only reader of the one before.  May `next` join?
  bool (*follows)(const th_stmt *const *chain, uint32_t count,
                  const th_stmt *next, const char **reason);
  // An executor of chains: puts `out`, the result of a chain just written, in
  // an order that its readers (of the old trace) like better.  What it appends
  // and gives to itself joins the chain.  Returns what they read then.
  th_value *(*lay_out)(th_builder *b, th_value *out,
                       const th_stmt *const *readers, uint32_t count);
  // A user's: what runs a region of statements; NULL: regions have kernels.
  th_status (*fuse_user)(th_context *ctx, const th_stmt *region,
                         th_run_fn *out_run, void **out_state);
  void (*release)(void *state);
};

typedef struct th_executor_list {
  const th_executor *const *items;
  uint32_t count;
} th_executor_list;

// "onednn,flash,host,ref" -> executors, in `arena`.  Aliases are followed and
// warn once; an unknown name is one error that lists the known ones.
th_status th_executor_resolve(th_context *ctx, th_arena *arena,
                              const char *names, th_executor_list *out_list);
const th_executor *th_executor_find(th_context *ctx, const char *name);

// Gives `to`, which has none of its own, the executors that `from` has now.
// `from` outlives it.
th_status th_executors_share(th_context *to, th_context *from);

// The default list for a device; NULL: none is for it.
const char *th_executor_default(th_device_type device);

// The claim with which `executor` takes `stmt` as it is, or NULL with a reason.
const th_claim *th_executor_claim(const th_executor *executor,
                                  const th_stmt *stmt, const char **reason);

// May `stmt` be part of a region of `executor`?
bool th_executor_can_fuse(const th_executor *executor, const th_stmt *stmt,
                          const char **reason);

// Built-in tables, each in its own file.
extern const th_executor_options th_ref_executor;  // ref.c
extern const th_executor_options th_host_executor; // host.c
void th_host_executor_init(th_executor *executor); // its fusing part
extern const th_executor_options th_gemv_executor;
extern const th_executor_options th_host_cat_executor;
extern const th_executor_options th_onednn_executor; // onednn.c
void th_onednn_executor_init(th_executor *executor);
extern const th_executor_options th_flash_executor; // flash.c
void th_flash_executor_init(th_executor *executor);

// th_executor.fuse of a user's: a region whose body is the statements
// themselves (user_region.c).
th_status th_user_region(const th_executor *executor, th_fusion *fusion);

// ---- a call from the inside (call.c fills it)

typedef struct th_rt_arg {
  th_arg_kind kind;
  th_dtype dtype; // of a number, or the DTYPE argument
  uint32_t count;
  union {
    const th_view *tensor; // VALUE
    th_scalar num;         // NUM
    const char *text;
    const struct th_rt_arg *items; // LIST
  };
} th_rt_arg;

struct th_run {
  const th_stmt *stmt;
  const th_rt_arg *args;
  const th_view *const *outs; // NULL entries: unwanted
  th_scalar *numbers;         // one for each result that is a number
  void *state;
  struct th_frame *call; // program.h: memory and diagnostics of this call
};

// Is this argument (part of) a weight that no call and no caller changes?
bool th_run_is_constant(const th_run *run, uint32_t arg);

// A row-major copy of `view` in memory of this call's; its strides are kept in
// `strides`.
th_status th_run_dense(th_run *run, const th_view *view, int64_t *strides,
                       th_view *out);

#endif
