// Products as oneDNN runs them: primitives, one for each set of sizes.
#ifndef TH_EXEC_ONEDNN_PLAN_H
#define TH_EXEC_ONEDNN_PLAN_H

#include "exec/executor.h"
#include "exec/onednn_library.h"

enum { TH_ONEDNN_POSTS = 8 };

// What is computed of a product on its way to memory: a function of the
// element, or a second operand.
typedef struct th_onednn_post {
  dnnl_alg_kind_t alg;
  float alpha, beta; // of a function
  bool is_binary;
} th_onednn_post;

typedef struct th_onednn_posts {
  th_onednn_post items[TH_ONEDNN_POSTS];
  uint32_t count;
} th_onednn_posts;

// One product: z = post(x @ y + bias).  All views have z's rank (2 at least);
// sizes of 1 are repeated.  y has its last two dimensions as they multiply.
typedef struct th_onednn_product {
  th_view x, y, z;
  const th_view *bias;                      // [n], or NULL
  const th_view *operands[TH_ONEDNN_POSTS]; // of the binary posts
  const th_onednn_posts *posts;
  bool y_is_constant; // its elements never change while the plans live
} th_onednn_product;

// The primitives of one call site, for the newest few sets of sizes.
typedef struct th_onednn_plans th_onednn_plans;
th_onednn_plans *th_onednn_plans_new(void); // NULL: no memory
void th_onednn_plans_free(th_onednn_plans *plans);

// May be called by several threads at once.
th_status th_onednn_run(th_run *run, th_onednn_plans *plans,
                        const th_onednn_product *product);

#endif
