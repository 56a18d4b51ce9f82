// The functions that ops.def names: one shape rule and, for composites, one
// expansion for each row that states one.  Made from the table, so that a name
// without a function does not link and a function without a row does not
// compile (-Wmissing-prototypes).
#ifndef TH_IR_RULES_H
#define TH_IR_RULES_H

#include "ir/expand.h"
#include "ir/infer.h"

#define OP(name, schema, traits, outs, rule)                                   \
  th_status th_infer_rule_##rule(th_infer *in);
#define EXPAND(f)                                                              \
  th_status th_expand_rule_##f(th_builder *b, const th_stmt *stmt,             \
                               th_value **outs);
#include "ir/ops.def"

// `_` in the table: no expansion.
#define th_expand_rule__ NULL

#endif
