// aarch64-emit FOLDER [TRACE...]: see emit.h.  The traces are those that the
// fuse pass has made.

#include "emit.h"

#include <string.h>

void emit_symbol(emitter *m, char symbol[32]) {
  snprintf(symbol, 32, "k%d", m->count++);
}

static FILE *emit_open(const char *folder, const char *name,
                       const char *extension) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s%s", folder, name, extension);
  return fopen(path, "wb");
}

th_status emit_file(emitter *m, const char *symbol, const char *extension,
                    const void *data, size_t size) {
  FILE *file = emit_open(m->folder, symbol, extension);
  bool good = file && fwrite(data, 1, size, file) == size;
  good = file && fclose(file) == 0 && good;
  return good ? TH_OK
              : th_error(m->ctx, TH_IO, TH_NOWHERE, "%s%s: not written", symbol,
                         extension);
}

void emit_case_write(emitter *m, const emit_case *c) {
  case_head head = {c->extent, c->number_count, c->buffer_count};
  fprintf(m->table, "CASE(%s, \"%s\", %d)\n", c->symbol, c->name, c->exact);
  fwrite(&head, sizeof head, 1, m->data);
  if (c->number_count > 0) {
    fwrite(c->numbers, sizeof *c->numbers, (size_t)c->number_count, m->data);
  }
  for (int64_t i = 0; i < c->buffer_count; i++) {
    const case_buffer *b = &c->buffers[i];
    fwrite(b, sizeof *b, 1, m->data);
    fwrite(c->data[i], th_dtype_size((th_dtype)b->dtype), (size_t)b->count,
           m->data);
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: aarch64-emit FOLDER [TRACE...]\n");
    return 2;
  }
  emitter m = {.ctx = th_context_new(),
               .folder = argv[1],
               .table = emit_open(argv[1], "cases", ".inc"),
               .data = emit_open(argv[1], "data", ".bin")};
  if (!m.ctx || !m.table || !m.data) {
    perror(argv[1]);
    return 1;
  }
  th_status status = emit_math(&m);
  for (int i = 2; i < argc && status == TH_OK; i++) {
    status = emit_trace(&m, argv[i]);
  }
  if (status != TH_OK) {
    fprintf(stderr, "%s", th_diagnostics_all(m.ctx));
  }
  bool bad = ferror(m.data) || ferror(m.table);
  fclose(m.table);
  fclose(m.data);
  th_context_free(m.ctx);
  return status != TH_OK || bad;
}
