// Runs a model that PyTorch exported on the inputs that it was exported with:
//   run_pt2 [model.pt2]
#include <thunder/thunder.h>

#include <stdio.h>

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "test/conformance/mlp.pt2";
  th_context *ctx = th_context_new();
  th_pt2 *archive = NULL;
  th_callable *model = NULL;
  th_tensor **in = NULL, *out[16] = {NULL};
  size_t in_count = 0, out_count = 0;
  th_status status = th_pt2_open(ctx, path, NULL, &archive);
  if (status == TH_OK) {
    status = th_jit_pt2(ctx, archive, NULL, NULL, &model);
  }
  if (status == TH_OK) {
    out_count = th_callable_output_count(model);
    const char *program = th_pt2_default_program(archive);
    status = th_pt2_sample_inputs(archive, program, &in, &in_count);
  }
  if (status == TH_OK && out_count <= 16) {
    status = th_call(model, in, in_count, out, out_count);
  }
  for (size_t i = 0; status == TH_OK && i < out_count && i < 16; i++) {
    char text[512];
    if (out[i]) {
      printf("output %zu: %s, begins with %g\n", i,
             th_tensor_describe(out[i], text, sizeof text),
             th_tensor_numel(out[i]) ? th_tensor_get(out[i], 0) : 0);
    }
    th_tensor_release(out[i]);
  }
  fputs(th_diagnostics_all(ctx), stderr);
  th_pt2_free_tensors(in, in_count);
  th_callable_free(model);
  th_pt2_free(archive);
  th_context_free(ctx);
  return status != TH_OK;
}
