// Loops and branches of emit.h.  Every construct leaves the builder at the end
// of a block without a terminator, so they nest and follow one another freely.
#include "lowering/emit.h"

#include "base/context.h"

LLVMBasicBlockRef th_emit_block(th_emit *e, const char *name) {
  return LLVMAppendBasicBlockInContext(e->context, e->function, name);
}

static LLVMValueRef flow_phi(th_emit *e, LLVMValueRef value,
                             LLVMBasicBlockRef from) {
  LLVMValueRef phi = LLVMBuildPhi(e->builder, LLVMTypeOf(value), "");
  LLVMAddIncoming(phi, &value, &from, 1);
  return phi;
}

// The body stands before its test, after a guard: the form that the loop passes
// of LLVM want, so none of them has to rotate it.
void th_emit_loop_begin(th_emit *e, th_emit_loop *loop,
                        const LLVMValueRef *init, unsigned count) {
  TH_ASSERT(count <= TH_EMIT_MAX_CARRIED);
  const char *name = loop->name ? loop->name : "loop";
  if (!loop->step) {
    loop->step = th_emit_int(e, loop->begin, 1);
  }
  loop->count = count;
  loop->before = LLVMGetInsertBlock(e->builder);
  loop->body = th_emit_block(e, name);
  loop->after = LLVMCreateBasicBlockInContext(e->context, "after");
  LLVMValueRef some = th_emit_icmp(e, LLVMIntSLT, loop->begin, loop->end);
  LLVMBuildCondBr(e->builder, some, loop->body, loop->after);
  LLVMPositionBuilderAtEnd(e->builder, loop->body);
  loop->index = flow_phi(e, loop->begin, loop->before);
  for (unsigned i = 0; i < count; i++) {
    loop->init[i] = init[i];
    loop->carried[i] = flow_phi(e, init[i], loop->before);
  }
}

void th_emit_loop_end(th_emit *e, th_emit_loop *loop, const LLVMValueRef *next,
                      LLVMValueRef *out) {
  LLVMBasicBlockRef last = LLVMGetInsertBlock(e->builder);
  LLVMValueRef index = th_emit_add(e, loop->index, loop->step);
  LLVMAddIncoming(loop->index, &index, &last, 1);
  for (unsigned i = 0; i < loop->count; i++) {
    LLVMValueRef value = next[i];
    LLVMAddIncoming(loop->carried[i], &value, &last, 1);
  }
  LLVMValueRef more = th_emit_icmp(e, LLVMIntSLT, index, loop->end);
  loop->branch = LLVMBuildCondBr(e->builder, more, loop->body, loop->after);
  LLVMAppendExistingBasicBlock(e->function, loop->after);
  LLVMPositionBuilderAtEnd(e->builder, loop->after);
  for (unsigned i = 0; i < loop->count; i++) {
    LLVMValueRef value = next[i];
    LLVMValueRef phi = flow_phi(e, loop->init[i], loop->before);
    LLVMAddIncoming(phi, &value, &last, 1);
    out[i] = phi;
  }
}

void th_emit_while_begin(th_emit *e, th_emit_while *loop,
                         const LLVMValueRef *init, unsigned count) {
  TH_ASSERT(count <= TH_EMIT_MAX_CARRIED);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder);
  loop->count = count;
  loop->head = th_emit_block(e, "while");
  LLVMBuildBr(e->builder, loop->head);
  LLVMPositionBuilderAtEnd(e->builder, loop->head);
  for (unsigned i = 0; i < count; i++) {
    loop->carried[i] = flow_phi(e, init[i], before);
  }
}

void th_emit_while_test(th_emit *e, th_emit_while *loop,
                        LLVMValueRef condition) {
  LLVMBasicBlockRef body = th_emit_block(e, "do");
  loop->after = LLVMCreateBasicBlockInContext(e->context, "done");
  LLVMBuildCondBr(e->builder, condition, body, loop->after);
  LLVMPositionBuilderAtEnd(e->builder, body);
}

void th_emit_while_end(th_emit *e, th_emit_while *loop,
                       const LLVMValueRef *next) {
  LLVMBasicBlockRef last = LLVMGetInsertBlock(e->builder);
  for (unsigned i = 0; i < loop->count; i++) {
    LLVMValueRef value = next[i];
    LLVMAddIncoming(loop->carried[i], &value, &last, 1);
  }
  LLVMBuildBr(e->builder, loop->head);
  LLVMAppendExistingBasicBlock(e->function, loop->after);
  LLVMPositionBuilderAtEnd(e->builder, loop->after);
}

void th_emit_if_begin(th_emit *e, th_emit_if *branch, LLVMValueRef condition) {
  LLVMBasicBlockRef yes = th_emit_block(e, "then");
  branch->no = th_emit_block(e, "else");
  branch->after = th_emit_block(e, "endif");
  LLVMBuildCondBr(e->builder, condition, yes, branch->no);
  LLVMPositionBuilderAtEnd(e->builder, yes);
}

void th_emit_if_else(th_emit *e, th_emit_if *branch, const LLVMValueRef *yes,
                     unsigned count) {
  TH_ASSERT(count <= TH_EMIT_MAX_CARRIED);
  for (unsigned i = 0; i < count; i++) {
    branch->yes[i] = yes[i];
  }
  branch->yes_end = LLVMGetInsertBlock(e->builder);
  LLVMBuildBr(e->builder, branch->after);
  LLVMMoveBasicBlockAfter(branch->no, branch->yes_end);
  LLVMPositionBuilderAtEnd(e->builder, branch->no);
}

void th_emit_if_end(th_emit *e, th_emit_if *branch, const LLVMValueRef *no,
                    unsigned count, LLVMValueRef *out) {
  LLVMBasicBlockRef last = LLVMGetInsertBlock(e->builder);
  LLVMBuildBr(e->builder, branch->after);
  LLVMMoveBasicBlockAfter(branch->after, last);
  LLVMPositionBuilderAtEnd(e->builder, branch->after);
  for (unsigned i = 0; i < count; i++) {
    LLVMValueRef value = no[i];
    out[i] = flow_phi(e, branch->yes[i], branch->yes_end);
    LLVMAddIncoming(out[i], &value, &last, 1);
  }
}

void th_emit_if_then_end(th_emit *e, th_emit_if *branch,
                         const LLVMValueRef *yes, const LLVMValueRef *otherwise,
                         unsigned count, LLVMValueRef *out) {
  th_emit_if_else(e, branch, yes, count);
  th_emit_if_end(e, branch, otherwise, count, out);
}
