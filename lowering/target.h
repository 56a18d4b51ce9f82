// Which machine code is generated for: a small table of names, and the CPU at
// hand as this process sees it.  codegen.h makes code for a target.
//
// Threads: any; a target never changes and lives as long as the process.
#ifndef TH_LOWERING_TARGET_H
#define TH_LOWERING_TARGET_H

#include "base/context.h"

// The class of a machine decides the shape of the code.
typedef enum th_isa {
  TH_ISA_SSE,    // x86-64 without AVX2 and FMA
  TH_ISA_AVX2,   // with F16C and FMA
  TH_ISA_AVX512, // F, BW, CD, DQ and VL
  TH_ISA_NEON,
  TH_ISA_PTX,
} th_isa;

typedef struct th_target {
  const char *name;        // as asked for: "host", "haswell", "aarch64"
  const char *triple;      // these four are in every cache key
  const char *cpu;         //
  const char *features;    // sorted, "+a,-b"
  const char *data_layout; //
  th_isa isa;
  uint32_t vector_bytes;   // of the widest register worth using
  bool has_mask_registers; // masked loads and stores are cheap
  bool runs_here;          // this process can execute the code
} th_target;

// `name`: NULL is $TH_CPU, and "host" where that is not set; "host" is the CPU
// as this process sees it (under valgrind: plain AVX2); else a row of the
// table in target.c (x86-64-v3, haswell, skylake-avx512, aarch64, sm_90, ...).
// TH_NOT_FOUND lists the names.
th_status th_target_get(th_context *ctx, const char *name,
                        const th_target **out_target);
// Makes LLVM's targets known, once; th_target_get does it itself.
void th_target_init(void);

#endif
