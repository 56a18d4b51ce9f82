// Loads oneDNN and finds its functions, once for the process.
#include "exec/onednn_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define ONEDNN_STRING_(x) #x
#define ONEDNN_STRING(x) ONEDNN_STRING_(x)
#define ONEDNN_FILE "libdnnl.so." ONEDNN_STRING(DNNL_VERSION_MAJOR)

static th_onednn onednn_library;
static pthread_once_t onednn_once = PTHREAD_ONCE_INIT;

// It stays loaded: threads of its pool may be inside.
static void onednn_load(void) {
  th_onednn *l = &onednn_library;
  void *handle = dlopen(ONEDNN_FILE, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    l->missing = ONEDNN_FILE " is not installed";
    return;
  }
#define X(name)                                                                \
  *(void **)(void *)&l->name = dlsym(handle, "dnnl_" #name);                   \
  l->missing = l->name ? l->missing : ONEDNN_FILE " has no dnnl_" #name;
  TH_ONEDNN_MAP(X)
#undef X
  if (!l->missing &&
      l->engine_create(&l->engine, dnnl_cpu, 0) != dnnl_success) {
    l->missing = ONEDNN_FILE " makes no engine on this CPU";
  }
}

const th_onednn *th_onednn_get(void) {
  pthread_once(&onednn_once, onednn_load);
  return &onednn_library;
}

th_status th_onednn_error(th_run *run, const char *call, dnnl_status_t status) {
  th_status ours = status == dnnl_out_of_memory   ? TH_NO_MEMORY
                   : status == dnnl_unimplemented ? TH_UNSUPPORTED
                                                  : TH_BACKEND;
  return th_run_error(run, ours, "oneDNN: %.*s: %s", (int)strcspn(call, "("),
                      call, th_onednn_get()->status2str(status));
}
