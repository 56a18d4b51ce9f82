// Executors through lowering/: `host` takes everything, as fused regions;
// `gemv` products of one row, which read a matrix once, as fast as memory gives
// it, where a library for products of many rows is at half of that; `host_cat`
// regions with a concat or a split, for use beside another fuser.
#include "exec/executor.h"
#include "exec/ref.h"
#include "lowering/lower.h"

static bool host_can_fuse(const th_stmt *stmt, const char **reason) {
  return th_lower_supports(stmt, reason);
}

static th_status host_fuse(const th_executor *executor, th_fusion *fusion) {
  th_lower_input in = {.remap = fusion->remap,
                       .stmts = fusion->stmts,
                       .count = fusion->count,
                       .outs = fusion->outs,
                       .out_count = fusion->out_count,
                       .executor = executor->name,
                       .region_number = fusion->region_number,
                       .kernel_number = fusion->kernel_number};
  return th_lower_region(&in);
}

// Of what stands around such a product its kernel can do what goes element by
// element: weights of fewer bits are converted, results scaled.
static bool gemv_can_fuse(const th_stmt *stmt, const char **reason) {
  *reason = "takes products of one row and what is done to each element";
  return th_lower_is_row(stmt) || stmt->op->traits & TH_EW;
}

static bool gemv_anchors(const th_stmt *stmt, const char **reason) {
  *reason = "no product of one row";
  return th_lower_is_row(stmt);
}

// Only what regions refuse: their bins have a constant range.
static bool host_check_histc(const th_stmt *stmt, const char **reason) {
  const char *refused = NULL;
  bool on_cpu = stmt->args[0].value->type.device.type == TH_CPU;
  *reason = on_cpu ? NULL : "an operand is not on the CPU";
  return on_cpu && !th_lower_supports(stmt, &refused);
}

// What no region holds, since its result's size, its being a number or the
// range of its bins depends on data.
static const th_claim host_claims[] = {
    {.op = "nonzero", .run = th_ref_run_nonzero},
    {.op = "item", .run = th_ref_run_item},
    {.op = "histc", .check = host_check_histc, .run = th_ref_run_histc},
    {.op = "assert_tensor", .run = th_ref_run_assert_tensor},
};

const th_executor_options th_host_executor = {
    .size = sizeof(th_executor_options),
    .name = "host",
    .version = "1",
    .claims = host_claims,
    .claim_count = TH_COUNT(host_claims),
    .claim_size = sizeof(th_claim),
};

void th_host_executor_init(th_executor *executor) {
  executor->can_fuse = host_can_fuse;
  executor->fuse = host_fuse;
}

const th_executor_options th_gemv_executor = {
    .size = sizeof(th_executor_options),
    .name = "gemv",
    .version = "1",
    .can_fuse = gemv_can_fuse,
    .like = "host",
    .anchors = gemv_anchors,
};

static bool host_cat_anchors(const th_stmt *stmt, const char **reason) {
  *reason = "no concat and no split";
  return stmt->op->traits & TH_CONCAT;
}

const th_executor_options th_host_cat_executor = {
    .size = sizeof(th_executor_options),
    .name = "host_cat",
    .version = "1",
    .like = "host",
    .anchors = host_cat_anchors,
};
