// Uses the installed interface; exit status 0 when it is the one it was
// compiled against.  Compiles as C17 and as C++17.

#include <stdio.h>
#include <string.h>
#include <thunder/base.h>

int main(void) {
  char wanted[64];
  th_context *ctx = th_context_new();
  snprintf(wanted, sizeof wanted, "%d.%d.%d", TH_VERSION_MAJOR,
           TH_VERSION_MINOR, TH_VERSION_PATCH);
  if (!ctx || strcmp(th_version(), wanted) != 0) {
    printf("got %s, compiled against %s\n", th_version(), wanted);
    return 1;
  }
  th_context_free(ctx);
  return 0;
}
