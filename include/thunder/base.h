// What every other header needs: exported names, status codes, element types,
// contexts and their diagnostics.
//
// Threads: a context is used by one thread at a time; different contexts are
// independent.  A compiled callable (jit.h) may be called by any thread.  A
// call spreads its loops over threads of libgomp, which keeps a team for each
// calling thread: k callers with t threads each are k * t threads.  After a
// fork the child runs calls in its only thread, with the same results.  The
// library may be unloaded while no call is under way.
//
// Pointers: NULL is legal where the comment says so, and nowhere else.
//
// Growth: a structure whose first field is `size` may get fields at its end;
// TH_..._INIT sets that field.  The others are as large as they will ever be.
#ifndef THUNDER_BASE_H
#define THUNDER_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define TH_API
#else
#define TH_API __attribute__((visibility("default")))
#endif
#if defined(__GNUC__) || defined(__clang__)
#define TH_MUST_CHECK __attribute__((warn_unused_result))
#define TH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TH_MUST_CHECK
#define TH_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TH_VERSION_MAJOR 0
#define TH_VERSION_MINOR 1
#define TH_VERSION_PATCH 0

// The version of the library that is running, as "0.1.0"; static storage.
TH_API const char *th_version(void);

// Every fallible function returns one of these.  The set only grows.
#define TH_STATUS_MAP(X)                                                       \
  X(OK, "ok")                                                                  \
  X(INVALID, "invalid argument")                                               \
  X(SHAPE, "shape mismatch")                                                   \
  X(DTYPE, "dtype mismatch")                                                   \
  X(PARSE, "malformed input")                                                  \
  X(VERIFY, "malformed program")                                               \
  X(UNSUPPORTED, "not supported")                                              \
  X(NOT_FOUND, "not found")                                                    \
  X(NO_MEMORY, "out of memory")                                                \
  X(IO, "input/output error")                                                  \
  X(BACKEND, "backend library reported an error")                              \
  X(BUSY, "the object is in use by another thread")

typedef enum th_status {
#define X(name, text) TH_##name,
  TH_STATUS_MAP(X)
#undef X
} th_status;

// The text of a status as above; static storage.
TH_API const char *th_status_text(th_status status);

// Element types: name, the name in traces, bytes, kind (b bool, u unsigned,
// i signed, f float).
#define TH_DTYPE_MAP(X)                                                        \
  X(BOOL, "b8", 1, 'b')                                                        \
  X(U8, "u8", 1, 'u')                                                          \
  X(I8, "i8", 1, 'i')                                                          \
  X(I16, "i16", 2, 'i')                                                        \
  X(I32, "i32", 4, 'i')                                                        \
  X(I64, "i64", 8, 'i')                                                        \
  X(F16, "f16", 2, 'f')                                                        \
  X(BF16, "bf16", 2, 'f')                                                      \
  X(F32, "f32", 4, 'f')                                                        \
  X(F64, "f64", 8, 'f')                                                        \
  X(F8_E4M3FN, "f8_e4m3fn", 1, 'f')                                            \
  X(F8_E5M2, "f8_e5m2", 1, 'f')                                                \
  X(F8_E8M0FNU, "f8_e8m0fnu", 1, 'f')

typedef enum th_dtype {
#define X(name, text, size, kind) TH_##name,
  TH_DTYPE_MAP(X)
#undef X
      TH_DTYPE_COUNT
} th_dtype;

// Size in bytes of an element, name ("f32"; static storage), and the reverse
// (TH_DTYPE_COUNT if unknown; "bool" is accepted for b8).
TH_API size_t th_dtype_size(th_dtype dtype);
TH_API const char *th_dtype_name(th_dtype dtype);
TH_API th_dtype th_dtype_parse(const char *name);
TH_API bool th_dtype_is_float(th_dtype dtype);

// Tensors have at most this many dimensions.
#define TH_MAX_RANK 12

// Where a tensor lives; written "cpu", "cuda:0", "ptxsim:0".
#define TH_DEVICE_MAP(X)                                                       \
  X(CPU, "cpu")                                                                \
  X(CUDA, "cuda")                                                              \
  X(PTXSIM, "ptxsim")

typedef enum th_device_type {
#define X(name, text) TH_##name,
  TH_DEVICE_MAP(X)
#undef X
      TH_DEVICE_TYPE_COUNT
} th_device_type;

typedef struct th_device {
  th_device_type type;
  int index; // 0 for the CPU
} th_device;

// Writes the text into `buffer` (24 bytes suffice) and returns it.
TH_API const char *th_device_text(th_device device, char *buffer, size_t size);
// False, and *out_device untouched, when the text names no device.  "cuda" is
// "cuda:0".
TH_API bool th_device_parse(const char *text, th_device *out_device);
TH_API bool th_device_equal(th_device a, th_device b);

// Where something was written: a line of a user's C file, of a trace text, or
// of the exported model.  `file` NULL: unknown.
typedef struct th_loc {
  const char *file;
  int line;
  int column;
} th_loc;

typedef enum th_severity {
  TH_NOTE,
  TH_WARNING,
  TH_ERROR,
} th_severity;

// A context holds diagnostics, registered executors and user operations.
typedef struct th_context th_context;

// NULL when memory is out.  Everything made from a context is freed before it.
TH_API th_context *th_context_new(void);
TH_API void th_context_free(th_context *ctx);

// Diagnostics are kept in the order in which they were reported, formatted as
//   model.c:42: error: matmul: inner sizes differ: f32[8, 16] x f32[32, 4]
// with notes after the error that they explain.  Calls of callables by other
// threads may add to them (jit.h, th_call): none may be under way while they
// are read or cleared.
TH_API size_t th_diagnostic_count(const th_context *ctx);
TH_API const char *th_diagnostic_text(const th_context *ctx, size_t index);
TH_API th_severity th_diagnostic_severity(const th_context *ctx, size_t index);
TH_API void th_diagnostics_clear(th_context *ctx);

// All diagnostics as one text, a line each; owned by the context, valid until
// the next call that reports or clears.  "" when there are none.
TH_API const char *th_diagnostics_all(th_context *ctx);

typedef enum th_log_level {
  TH_LOG_ERROR,
  TH_LOG_WARN,
  TH_LOG_INFO,
  TH_LOG_DEBUG,
} th_log_level;

// Called for every log line up to `level`, without a newline, and for every
// diagnostic as it is reported (errors as TH_LOG_ERROR, warnings and notes as
// TH_LOG_WARN).  By default (fn NULL) nothing is printed anywhere.
//
// The thread that reports calls it: the context's, and each that calls a
// callable of the context, so that several may be inside at once.  It must not
// call into the context.  `text` is valid during the call.
typedef void (*th_log_fn)(void *user, th_log_level level, const char *text);
TH_API void th_set_log(th_context *ctx, th_log_level level, th_log_fn fn,
                       void *user);

#ifdef __cplusplus
}
#endif
#endif
