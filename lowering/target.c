// Names of machines and what follows from them.
//
// LLVM's C interface cannot tell what a CPU name implies, so the table states
// the class and what the host must have for the code to run here.  For "host"
// name and features come from CPUID: under valgrind, or in a virtual machine
// that hides AVX-512, the name may promise more than the features hold, which
// is why the full list with its minus signs is passed on.
#include "lowering/target.h"

#include "base/alloc.h"

#include <llvm-c/Core.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TARGET_MAX 32

// VCVTNEPS2BF16 takes denormals for zero; the lowering rounds by integers.
#define TARGET_X86_OFF "-avx512bf16,-avxneconvert"

#define TARGET_NEED_V2 "+sse4.2,+ssse3,+popcnt,+cx16"
#define TARGET_NEED_V3 "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe"
#define TARGET_NEED_V4                                                         \
  TARGET_NEED_V3 ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
#define TARGET_NEED_ICX                                                        \
  TARGET_NEED_V4 ",+avx512vbmi,+avx512vbmi2,+avx512vnni,+gfni,+vaes"

typedef struct target_row {
  const char *name;
  th_isa isa;
  const char *cpu;
  const char *need; // features of the host without which it cannot run here
} target_row;

static const target_row target_rows[] = {
    {"x86-64", TH_ISA_SSE, "x86-64", ""},
    {"x86-64-v2", TH_ISA_SSE, "x86-64-v2", TARGET_NEED_V2},
    {"x86-64-v3", TH_ISA_AVX2, "x86-64-v3", TARGET_NEED_V3},
    {"x86-64-v4", TH_ISA_AVX512, "x86-64-v4", TARGET_NEED_V4},
    {"haswell", TH_ISA_AVX2, "haswell", TARGET_NEED_V3},
    {"skylake", TH_ISA_AVX2, "skylake", TARGET_NEED_V3 ",+adx,+clflushopt"},
    {"znver3", TH_ISA_AVX2, "znver3", TARGET_NEED_V3 ",+vaes,+sse4a,+clzero"},
    {"skylake-avx512", TH_ISA_AVX512, "skylake-avx512", TARGET_NEED_V4},
    {"icelake-server", TH_ISA_AVX512, "icelake-server", TARGET_NEED_ICX},
    {"sapphirerapids", TH_ISA_AVX512, "sapphirerapids",
     TARGET_NEED_ICX ",+avx512fp16,+amx-int8"},
    {"znver4", TH_ISA_AVX512, "znver4", TARGET_NEED_ICX ",+sse4a,+clzero"},
    {"aarch64", TH_ISA_NEON, "generic", ""},
    {"sm_80", TH_ISA_PTX, "sm_80", ""},
    {"sm_90", TH_ISA_PTX, "sm_90", ""},
    {"sm_100", TH_ISA_PTX, "sm_100", ""},
};

static pthread_once_t target_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t target_lock = PTHREAD_MUTEX_INITIALIZER;
static th_target *target_made[TARGET_MAX];
static size_t target_count;

// The peephole pass of LLVM 22 folds a masked load into an operation with the
// same mask, and where registers ask for it a later pass takes the two apart
// again, without the mask: the load then reaches past the end of a tensor.
static const char *const target_options[] = {"thunder", "-disable-peephole"};

static void target_init_once(void) {
  LLVMParseCommandLineOptions(TH_COUNT(target_options), target_options, NULL);
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
}

void th_target_init(void) { pthread_once(&target_once, target_init_once); }

static const char *target_triple(th_isa isa) {
  switch (isa) {
  case TH_ISA_NEON:
    return "aarch64-unknown-linux-gnu";
  case TH_ISA_PTX:
    return "nvptx64-nvidia-cuda";
  default:
    return "x86_64-unknown-linux-gnu";
  }
}

static uint32_t target_vector_bytes(th_isa isa) {
  return isa == TH_ISA_AVX512 ? 64 : isa == TH_ISA_AVX2 ? 32 : 16;
}

// Whether `list` ("+a,-b,+c") has each item of `wanted`.
static bool target_has(const char *list, const char *wanted) {
  while (*wanted != 0) {
    size_t size = strcspn(wanted, ",");
    const char *at = list;
    while (*at != 0) {
      size_t step = strcspn(at, ",");
      if (step == size && memcmp(at, wanted, size) == 0) {
        break;
      }
      at += step + (at[step] == ',');
    }
    if (*at == 0) {
      return false;
    }
    wanted += size + (wanted[size] == ',');
  }
  return true;
}

static int target_compare_features(const void *a, const void *b) {
  const char *const *x = a, *const *y = b;
  return strcmp(*x + 1, *y + 1); // past the sign
}

// Sorted, since LLVM lists features in the order of a hash table and the list
// is part of keys on disk; NULL when memory is out.
static char *target_sort_features(const char *list) {
  size_t size = strlen(list) + 1, count = 0;
  char *copy = th_strdup(list);
  const char **items = th_malloc((size / 2 + 1) * sizeof *items);
  char *sorted = th_calloc(size + sizeof "," TARGET_X86_OFF, 1);
  if (copy != NULL && items != NULL && sorted != NULL) {
    char *save = NULL;
    for (char *item = strtok_r(copy, ",", &save); item != NULL;
         item = strtok_r(NULL, ",", &save)) {
      *item = '-'; // is it one that TARGET_X86_OFF takes away?
      if (!target_has(TARGET_X86_OFF, item)) {
        *item = list[item - copy];
        items[count++] = item;
      }
    }
    qsort(items, count, sizeof *items, target_compare_features);
    char *end = sorted;
    for (size_t i = 0; i < count; i++) {
      end = stpcpy(stpcpy(end, items[i]), ",");
    }
    stpcpy(end, TARGET_X86_OFF);
  } else {
    th_free(sorted);
    sorted = NULL;
  }
  th_free(copy);
  th_free(items);
  return sorted;
}

static th_isa target_host_isa(const char *features) {
  if (target_has(features, TARGET_NEED_V4)) {
    return TH_ISA_AVX512;
  }
  return target_has(features, "+avx2,+fma,+f16c") ? TH_ISA_AVX2 : TH_ISA_SSE;
}

// Fills what LLVM knows; the strings become the target's.
static th_status target_fill_host(th_target *target) {
  char *cpu = LLVMGetHostCPUName();
  char *features = LLVMGetHostCPUFeatures();
#if defined(__aarch64__)
  target->isa = TH_ISA_NEON;
  target->features = th_strdup(features);
#else
  target->isa = target_host_isa(features);
  target->features = target_sort_features(features);
#endif
  target->cpu = th_strdup(cpu);
  target->runs_here = true;
  LLVMDisposeMessage(cpu);
  LLVMDisposeMessage(features);
  return target->cpu != NULL && target->features != NULL ? TH_OK : TH_NO_MEMORY;
}

static th_status target_fill_row(th_target *target, const target_row *row) {
  bool x86 = row->isa <= TH_ISA_AVX512;
  target->isa = row->isa;
  target->cpu = th_strdup(row->cpu);
  target->features = th_strdup(x86 ? TARGET_X86_OFF : "");
#if defined(__x86_64__)
  char *features = LLVMGetHostCPUFeatures();
  target->runs_here = x86 && target_has(features, row->need);
  LLVMDisposeMessage(features);
#elif defined(__aarch64__)
  target->runs_here = row->isa == TH_ISA_NEON;
#endif
  return target->cpu != NULL && target->features != NULL ? TH_OK : TH_NO_MEMORY;
}

static th_status target_fill_layout(th_context *ctx, th_target *target) {
  LLVMTargetRef llvm;
  char *error = NULL;
  if (LLVMGetTargetFromTriple(target->triple, &llvm, &error)) {
    th_status status = th_error(ctx, TH_BACKEND, TH_NOWHERE, "llvm: %s", error);
    LLVMDisposeMessage(error);
    return status;
  }
  LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
      llvm, target->triple, target->cpu, target->features,
      LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
  LLVMTargetDataRef data = LLVMCreateTargetDataLayout(machine);
  char *text = LLVMCopyStringRepOfTargetData(data);
  target->data_layout = th_strdup(text);
  LLVMDisposeMessage(text);
  LLVMDisposeTargetData(data);
  LLVMDisposeTargetMachine(machine);
  return target->data_layout != NULL ? TH_OK : TH_NO_MEMORY;
}

static void target_free(th_target *target) {
  th_free((char *)target->name);
  th_free((char *)target->cpu);
  th_free((char *)target->features);
  th_free((char *)target->data_layout);
  th_free(target);
}

static th_status target_not_found(th_context *ctx, const char *name) {
  char list[512] = "host";
  char *end = list + strlen(list);
  for (size_t i = 0; i < TH_COUNT(target_rows); i++) {
    end += snprintf(end, (size_t)(list + sizeof list - end), ", %s",
                    target_rows[i].name);
    TH_ASSERT(end < list + sizeof list);
  }
  return th_error(ctx, TH_NOT_FOUND, TH_NOWHERE,
                  "target '%.60s' is not known: one of %s", name, list);
}

// `row` NULL is the host.
static th_status target_new(th_context *ctx, const char *name,
                            const target_row *row, th_target **out_target) {
  th_target *target = th_calloc(1, sizeof *target);
  if (target == NULL) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "target '%s'", name);
  }
  th_status status =
      row != NULL ? target_fill_row(target, row) : target_fill_host(target);
  target->name = th_strdup(name);
  target->triple = target_triple(target->isa);
  target->vector_bytes = target_vector_bytes(target->isa);
  target->has_mask_registers = target->isa == TH_ISA_AVX512;
  if (status == TH_OK) {
    status = target_fill_layout(ctx, target);
  }
  if (status == TH_OK && target->name == NULL) {
    status = TH_NO_MEMORY;
  }
  if (status != TH_OK) {
    if (status == TH_NO_MEMORY) {
      th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "target '%s'", name);
    }
    target_free(target);
    return status;
  }
  *out_target = target;
  return TH_OK;
}

// Under target_lock.
static th_status target_find(th_context *ctx, const char *name,
                             const th_target **out_target) {
  for (size_t i = 0; i < target_count; i++) {
    if (strcmp(target_made[i]->name, name) == 0) {
      *out_target = target_made[i];
      return TH_OK;
    }
  }
  const target_row *row = NULL;
  for (size_t i = 0; i < TH_COUNT(target_rows); i++) {
    if (strcmp(target_rows[i].name, name) == 0) {
      row = &target_rows[i];
    }
  }
  if (row == NULL && strcmp(name, "host") != 0) {
    return target_not_found(ctx, name);
  }
  th_target *target = NULL;
  TH_TRY(target_new(ctx, name, row, &target));
  TH_ASSERT(target_count < TARGET_MAX);
  target_made[target_count++] = target;
  *out_target = target;
  return TH_OK;
}

th_status th_target_get(th_context *ctx, const char *name,
                        const th_target **out_target) {
  th_target_init();
  if (name == NULL) {
    name = getenv("TH_CPU");
  }
  if (name == NULL || *name == 0) {
    name = "host";
  }
  pthread_mutex_lock(&target_lock);
  th_status status = target_find(ctx, name, out_target);
  pthread_mutex_unlock(&target_lock);
  return status;
}
