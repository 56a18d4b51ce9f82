// Guards: what the inputs of a call must be for compiled code to be used.
//
// A prologue is a trace with a statement for each check; th_guards_read turns
// it into flat lists, so what is printed is what is checked.
#ifndef TH_GUARDS_H
#define TH_GUARDS_H

#include "ir/trace.h"
#include "thunder/jit.h"

// One user input.
typedef struct th_guard {
  th_leaf_kind kind;
  th_dtype dtype;
  th_device device;
  uint8_t rank;
  bool has_symbols;       // a size, or the number, is a symbol
  const int64_t *dims;    // constants; -1 - index: a symbol
  const int64_t *strides; // NULL: any
  th_scalar number;       // the constant
  int32_t symbol;         // of the number; -1: it is a constant
  const char *text;
  const char *name;
} th_guard;

typedef struct th_guards {
  th_guard *inputs;
  uint32_t count;
  const th_expr **conditions; // over symbols
  uint32_t condition_count, condition_cap;
  const th_symbol **symbols; // those of the inputs
  uint32_t symbol_count, symbol_cap;
  uint32_t index_count; // of all symbols: room for their values
} th_guards;

// What the prologue of a computation looks like.
typedef struct th_prologue {
  const th_trace *computation;
  const th_expr *const *conditions;
  uint32_t condition_count;
  bool any_strides; // symbolic values: what is not row-major is copied
} th_prologue;

// In the computation's th_ir.  Unwinds.
th_status th_prologue_build(const th_prologue *from, th_trace **out_trace);
// In `arena`.  Unwinds.
th_status th_guards_read(const th_trace *prologue, th_arena *arena,
                         th_guards *out);

// Do the guards hold for these inputs?
bool th_guards_hold(const th_guards *guards, const th_leaf *inputs,
                    size_t count);
// Equal for all inputs that one set of guards accepts.  `symbolic`: sizes above
// 1 and numbers do not count.
uint64_t th_guards_hash(const th_leaf *inputs, size_t count, bool symbolic);
// Which guard fails first, as text; cut to `size`.
void th_guards_reason(const th_guards *guards, const th_leaf *inputs,
                      size_t count, char *buffer, size_t size);

#endif
