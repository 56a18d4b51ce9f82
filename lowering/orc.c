// LLJIT with one resource tracker for each object.
//
// Objects go into JITDylibs of our own, which have no link to the symbols of
// the process: only the table below is visible.  There is one dylib as long
// as no two live objects define the same symbol, else as many as are needed.
// Linking is JITLink's, or RTDyld's where debuggers and profilers want to be
// told, because it is there that the C interface has listeners.
#include "lowering/orc.h"

#include "base/alloc.h"
#include "lowering/codegen.h"

#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/OrcEE.h>

#include <elf.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORC_SYMBOL_MAX 256
#define ORC_DYLIB_MAX 64

// A function pointer as an object pointer, which POSIX allows.
typedef union orc_function {
  void (*code)(void);
  void *data;
} orc_function;

typedef struct orc_symbol {
  const char *name;
  void *address;
} orc_symbol;

struct th_code {
  _Atomic uint32_t refs;
  uint32_t dylib;
  void *address;
  LLVMOrcResourceTrackerRef tracker;
  th_code *next, *prev; // of the live ones
  char symbol[];
};

typedef struct orc_jit {
  LLVMOrcLLJITRef lljit; // NULL: there is none now
  LLVMOrcExecutionSessionRef session;
  LLVMOrcJITDylibRef dylibs[ORC_DYLIB_MAX];
  uint32_t dylib_count;
  th_code *codes;
  size_t code_count;
  char error[400]; // what the session reported last
} orc_jit;

static pthread_mutex_t orc_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t orc_once = PTHREAD_ONCE_INIT;
static orc_jit orc_state; // under orc_lock

// Appended to under orc_lock, read without.
static orc_symbol orc_symbols[ORC_SYMBOL_MAX];
static _Atomic size_t orc_symbol_count;

// ---- run-time functions ----------------------------------------------------

// What LLVM makes of llvm.memcpy and of frem everywhere, and of rounding and
// fma on x86-64 without SSE4.1 or FMA.
#define ORC_RUNTIME_MAP(X)                                                     \
  X(memcpy)                                                                    \
  X(memmove)                                                                   \
  X(memset)                                                                    \
  X(fmod)                                                                      \
  X(fmodf)                                                                     \
  X(fma)                                                                       \
  X(fmaf)                                                                      \
  X(floor)                                                                     \
  X(floorf)                                                                    \
  X(ceil)                                                                      \
  X(ceilf)                                                                     \
  X(trunc)                                                                     \
  X(truncf)                                                                    \
  X(rint)                                                                      \
  X(rintf)                                                                     \
  X(nearbyint)                                                                 \
  X(nearbyintf)                                                                \
  X(round)                                                                     \
  X(roundf)                                                                    \
  X(roundeven)                                                                 \
  X(roundevenf)

// TS 18661-1; libc declares them only on request.
double roundeven(double x);
float roundevenf(float x);

static void orc_add_symbol(const char *name, void *address) {
  size_t count = atomic_load(&orc_symbol_count);
  TH_ASSERT(count < ORC_SYMBOL_MAX);
  orc_symbols[count] = (orc_symbol){name, address};
  atomic_store(&orc_symbol_count, count + 1);
}

// fork while another thread links would leave the child a locked lock.
static void orc_before_fork(void) { pthread_mutex_lock(&orc_lock); }
static void orc_after_fork(void) { pthread_mutex_unlock(&orc_lock); }

static void orc_init_once(void) {
#define X(name)                                                                \
  orc_add_symbol(#name, (orc_function){(void (*)(void))name}.data);
  ORC_RUNTIME_MAP(X)
#undef X
  pthread_atfork(orc_before_fork, orc_after_fork, orc_after_fork);
}

void *th_runtime_symbol(const char *name) {
  pthread_once(&orc_once, orc_init_once);
  size_t count = atomic_load(&orc_symbol_count);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(orc_symbols[i].name, name) == 0) {
      return orc_symbols[i].address;
    }
  }
  return NULL;
}

static LLVMErrorRef orc_define(LLVMOrcJITDylibRef dylib, orc_symbol symbol) {
  LLVMOrcCSymbolMapPair pair = {
      LLVMOrcExecutionSessionIntern(orc_state.session, symbol.name),
      {(LLVMOrcExecutorAddress)(uintptr_t)symbol.address,
       {LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable,
        0}}};
  return LLVMOrcJITDylibDefine(dylib, LLVMOrcAbsoluteSymbols(&pair, 1));
}

// Under orc_lock.
static th_status orc_register(th_context *ctx, const char *name,
                              void *address) {
  void *known = th_runtime_symbol(name);
  if (known == address) {
    return TH_OK;
  }
  if (known != NULL || atomic_load(&orc_symbol_count) == ORC_SYMBOL_MAX) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    known != NULL
                        ? "run-time function '%s' is another one already"
                        : "run-time function '%s': the table is full",
                    name);
  }
  char *copy = th_strdup(name);
  if (copy == NULL) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "run-time function '%s'",
                    name);
  }
  orc_add_symbol(copy, address);
  for (uint32_t i = 0; i < orc_state.dylib_count; i++) {
    LLVMErrorRef error =
        orc_define(orc_state.dylibs[i], (orc_symbol){copy, address});
    if (error != NULL) {
      return th_llvm_error(ctx, name, error);
    }
  }
  return TH_OK;
}

th_status th_runtime_register(th_context *ctx, const char *name,
                              void *function) {
  pthread_once(&orc_once, orc_init_once);
  pthread_mutex_lock(&orc_lock);
  th_status status = orc_register(ctx, name, function);
  pthread_mutex_unlock(&orc_lock);
  return status;
}

// ---- the JIT: all below is under orc_lock ----------------------------------

static bool orc_wanted(const char *variable) {
  const char *value = getenv(variable);
  return value != NULL && *value != 0 && strcmp(value, "0") != 0;
}

// Errors of a link that is under way; the lookup itself says only that the
// symbol could not be made.
static void orc_on_error(void *user, LLVMErrorRef error) {
  (void)user;
  char *message = LLVMGetErrorMessage(error);
  if (orc_state.error[0] == 0) {
    snprintf(orc_state.error, sizeof orc_state.error, "%s", message);
  }
  LLVMDisposeErrorMessage(message);
}

static LLVMOrcObjectLayerRef
orc_listening_layer(void *user, LLVMOrcExecutionSessionRef session,
                    const char *triple) {
  (void)user;
  (void)triple;
  LLVMOrcObjectLayerRef layer =
      LLVMOrcCreateRTDyldObjectLinkingLayerWithSectionMemoryManager(session);
  LLVMJITEventListenerRef gdb =
      orc_wanted("TH_DEBUG_JIT") ? LLVMCreateGDBRegistrationListener() : NULL;
  LLVMJITEventListenerRef perf =
      orc_wanted("TH_PERF") ? LLVMCreatePerfJITEventListener() : NULL;
  if (gdb != NULL) {
    LLVMOrcRTDyldObjectLinkingLayerRegisterJITEventListener(layer, gdb);
  }
  if (perf != NULL) {
    LLVMOrcRTDyldObjectLinkingLayerRegisterJITEventListener(layer, perf);
  }
  return layer;
}

static th_status orc_start(th_context *ctx) {
  if (orc_state.lljit != NULL) {
    return TH_OK;
  }
  th_target_init();
  LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
  if (orc_wanted("TH_DEBUG_JIT") || orc_wanted("TH_PERF")) {
    LLVMOrcLLJITBuilderSetObjectLinkingLayerCreator(builder,
                                                    orc_listening_layer, NULL);
  }
  LLVMErrorRef error = LLVMOrcCreateLLJIT(&orc_state.lljit, builder);
  if (error != NULL) {
    orc_state.lljit = NULL;
    return th_llvm_error(ctx, "jit", error);
  }
  orc_state.session = LLVMOrcLLJITGetExecutionSession(orc_state.lljit);
  LLVMOrcExecutionSessionSetErrorReporter(orc_state.session, orc_on_error,
                                          NULL);
  return TH_OK;
}

static void orc_stop_if_unused(void) {
  if (orc_state.lljit == NULL || orc_state.code_count != 0) {
    return;
  }
  LLVMConsumeError(LLVMOrcDisposeLLJIT(orc_state.lljit));
  orc_state = (orc_jit){0};
}

static th_status orc_add_dylib(th_context *ctx) {
  if (orc_state.dylib_count == ORC_DYLIB_MAX) {
    return th_error(ctx, TH_BACKEND, TH_NOWHERE,
                    "%d objects define the same symbol", ORC_DYLIB_MAX);
  }
  char name[32];
  snprintf(name, sizeof name, "thunder%u", orc_state.dylib_count);
  LLVMOrcJITDylibRef dylib =
      LLVMOrcExecutionSessionCreateBareJITDylib(orc_state.session, name);
  orc_state.dylibs[orc_state.dylib_count++] = dylib;
  size_t count = atomic_load(&orc_symbol_count);
  for (size_t i = 0; i < count; i++) {
    LLVMErrorRef error = orc_define(dylib, orc_symbols[i]);
    if (error != NULL) {
      return th_llvm_error(ctx, orc_symbols[i].name, error);
    }
  }
  return TH_OK;
}

// The first dylib in which `symbol` is free.
static th_status orc_pick_dylib(th_context *ctx, const char *symbol,
                                uint32_t *out_dylib) {
  uint64_t taken = 0;
  for (const th_code *code = orc_state.codes; code != NULL; code = code->next) {
    if (strcmp(code->symbol, symbol) == 0) {
      taken |= UINT64_C(1) << code->dylib;
    }
  }
  uint32_t dylib = 0;
  while (dylib < ORC_DYLIB_MAX && (taken >> dylib & 1) != 0) {
    dylib++;
  }
  if (dylib >= orc_state.dylib_count) {
    TH_TRY(orc_add_dylib(ctx));
  }
  *out_dylib = dylib;
  return TH_OK;
}

// LLVM would link an object for any machine that it knows.
static th_status orc_check_object(th_context *ctx, const void *object,
                                  size_t size) {
  Elf64_Ehdr head;
  if (size < sizeof head || memcmp(object, ELFMAG, SELFMAG) != 0) {
    return th_error(ctx, TH_BACKEND, TH_NOWHERE, "jit: not an ELF object");
  }
  memcpy(&head, object, sizeof head);
#if defined(__aarch64__)
  unsigned machine = EM_AARCH64;
#else
  unsigned machine = EM_X86_64;
#endif
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != machine) {
    return th_error(ctx, TH_BACKEND, TH_NOWHERE,
                    "jit: an object for ELF machine %u, not %u", head.e_machine,
                    machine);
  }
  return TH_OK;
}

// ---- lookup ----------------------------------------------------------------

typedef struct orc_lookup {
  pthread_mutex_t lock;
  pthread_cond_t change;
  bool done;
  LLVMErrorRef error;
  void *address;
} orc_lookup;

static void orc_on_lookup(LLVMErrorRef error, LLVMOrcCSymbolMapPairs result,
                          size_t count, void *user) {
  orc_lookup *lookup = user;
  pthread_mutex_lock(&lookup->lock);
  lookup->done = true;
  lookup->error = error;
  if (error == NULL && count == 1) {
    lookup->address = (void *)(uintptr_t)result[0].Sym.Address;
  }
  pthread_cond_signal(&lookup->change);
  pthread_mutex_unlock(&lookup->lock);
}

// LLVMOrcLLJITLookup knows the main dylib only.  This one may answer from
// another thread where LLJIT was built with compile threads.
static th_status orc_find(th_context *ctx, th_code *code) {
  LLVMOrcCJITDylibSearchOrderElement order = {
      orc_state.dylibs[code->dylib],
      LLVMOrcJITDylibLookupFlagsMatchExportedSymbolsOnly};
  LLVMOrcCLookupSetElement wanted = {
      LLVMOrcExecutionSessionIntern(orc_state.session, code->symbol),
      LLVMOrcSymbolLookupFlagsRequiredSymbol};
  orc_lookup lookup = {.lock = PTHREAD_MUTEX_INITIALIZER,
                       .change = PTHREAD_COND_INITIALIZER};
  orc_state.error[0] = 0;
  LLVMOrcExecutionSessionLookup(orc_state.session, LLVMOrcLookupKindStatic,
                                &order, 1, &wanted, 1, orc_on_lookup, &lookup);
  pthread_mutex_lock(&lookup.lock);
  while (!lookup.done) {
    pthread_cond_wait(&lookup.change, &lookup.lock);
  }
  pthread_mutex_unlock(&lookup.lock);
  pthread_mutex_destroy(&lookup.lock);
  pthread_cond_destroy(&lookup.change);
  if (lookup.error != NULL && orc_state.error[0] != 0) {
    LLVMConsumeError(lookup.error);
    return th_llvm_message(ctx, code->symbol, orc_state.error);
  }
  if (lookup.error != NULL) {
    return th_llvm_error(ctx, code->symbol, lookup.error);
  }
  code->address = lookup.address;
  return TH_OK;
}

// ---- code ------------------------------------------------------------------

static void orc_unload(th_code *code) {
  LLVMConsumeError(LLVMOrcResourceTrackerRemove(code->tracker));
  LLVMOrcReleaseResourceTracker(code->tracker);
}

static th_status orc_load(th_context *ctx, const void *object, size_t size,
                          th_code *code) {
  TH_TRY(orc_start(ctx));
  TH_TRY(orc_pick_dylib(ctx, code->symbol, &code->dylib));
  LLVMOrcJITDylibRef dylib = orc_state.dylibs[code->dylib];
  code->tracker = LLVMOrcJITDylibCreateResourceTracker(dylib);
  LLVMMemoryBufferRef buffer =
      LLVMCreateMemoryBufferWithMemoryRangeCopy(object, size, code->symbol);
  LLVMErrorRef error =
      LLVMOrcLLJITAddObjectFileWithRT(orc_state.lljit, code->tracker, buffer);
  th_status status = error != NULL ? th_llvm_error(ctx, code->symbol, error)
                                   : orc_find(ctx, code);
  if (status != TH_OK) {
    orc_unload(code);
    return status;
  }
  code->next = orc_state.codes;
  if (code->next != NULL) {
    code->next->prev = code;
  }
  orc_state.codes = code;
  orc_state.code_count++;
  return TH_OK;
}

th_status th_code_load(th_context *ctx, const void *object, size_t size,
                       const char *symbol, th_code **out_code) {
  TH_TRY(orc_check_object(ctx, object, size));
  pthread_once(&orc_once, orc_init_once);
  size_t length = strlen(symbol) + 1;
  th_code *code = th_calloc(1, sizeof *code + length);
  if (code == NULL) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "code of '%s'", symbol);
  }
  atomic_init(&code->refs, 1);
  memcpy(code->symbol, symbol, length);
  pthread_mutex_lock(&orc_lock);
  th_status status = orc_load(ctx, object, size, code);
  orc_stop_if_unused();
  pthread_mutex_unlock(&orc_lock);
  if (status != TH_OK) {
    th_free(code);
    return status;
  }
  *out_code = code;
  return TH_OK;
}

void *th_code_address(const th_code *code) { return code->address; }

const char *th_code_symbol(const th_code *code) { return code->symbol; }

th_code *th_code_retain(th_code *code) {
  atomic_fetch_add_explicit(&code->refs, 1, memory_order_relaxed);
  return code;
}

void th_code_release(th_code *code) {
  if (code == NULL ||
      atomic_fetch_sub_explicit(&code->refs, 1, memory_order_acq_rel) != 1) {
    return;
  }
  pthread_mutex_lock(&orc_lock);
  if (code->next != NULL) {
    code->next->prev = code->prev;
  }
  *(code->prev != NULL ? &code->prev->next : &orc_state.codes) = code->next;
  orc_state.code_count--;
  orc_unload(code);
  orc_stop_if_unused();
  pthread_mutex_unlock(&orc_lock);
  th_free(code);
}

size_t th_code_count(void) {
  pthread_mutex_lock(&orc_lock);
  size_t count = orc_state.code_count;
  pthread_mutex_unlock(&orc_lock);
  return count;
}
