#include "ir_text.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <string.h>

ir_text ir_text_new(void) {
  ir_text t = {.ctx = th_context_new()};
  cr_assert_not_null(t.ctx);
  t.ir = th_ir_new(t.ctx);
  cr_assert_not_null(t.ir);
  return t;
}

void ir_text_free(ir_text *t) {
  th_ir_release(t->ir);
  th_context_free(t->ctx);
}

typedef struct text_read {
  ir_text *t;
  const char *inputs, *body;
  th_trace *trace;
} text_read;

// "name type" parts, separated by "; ".
static void text_inputs(th_buffer *out, const char *inputs, bool names) {
  for (const char *at = inputs; *at;) {
    const char *space = strchr(at, ' ');
    const char *end = strchr(at, ';');
    end = end ? end : at + strlen(at);
    int name = (int)(space - at), type = (int)(end - space - 1);
    if (names) {
      th_buffer_printf(out, "%s%.*s", at == inputs ? "" : ", ", name, at);
    } else {
      bool is_plain = memchr(space + 1, '[', (size_t)type) &&
                      !memchr(space + 1, ' ', strcspn(space + 1, "["));
      th_buffer_printf(out, "  # %.*s: \"%s%.*s\"\n", name, at,
                       is_plain ? "cpu " : "", type, space + 1);
    }
    at = *end ? end + 2 : end;
  }
}

// Every s0 .. s9 that the inputs mention.
static void text_symbols(th_buffer *out, const char *inputs) {
  for (const char *digit = "0123456789"; *digit; digit++) {
    const char name[] = {'s', *digit, 0};
    if (strstr(inputs, name)) {
      th_buffer_printf(out, "  # %s: \"int\" in [1, 64]\n", name);
    }
  }
}

static th_status text_read_trace(void *arg) {
  text_read *r = arg;
  th_buffer text;
  th_buffer_init(&text, &r->t->ir->arena);
  th_buffer_puts(&text, "def computation(");
  text_inputs(&text, r->inputs, true);
  th_buffer_puts(&text, "):\n");
  text_inputs(&text, r->inputs, false);
  text_symbols(&text, r->inputs);
  for (const char *at = r->body; *at;) {
    size_t size = strcspn(at, "\n");
    th_buffer_printf(&text, "  %.*s\n", (int)size, at);
    at += size + (at[size] != 0);
  }
  th_buffer_puts(&text, "  return None\n");
  return th_trace_parse(r->t->ir, "test", text.data, text.size, &r->trace);
}

th_trace *ir_text_read(ir_text *t, const char *inputs, const char *body) {
  text_read r = {t, inputs, body, NULL};
  th_status status = th_protect(&t->ctx->unwind, text_read_trace, &r);
  return status == TH_OK ? r.trace : NULL;
}

bool ir_text_match(ir_text *t, const th_stmt *stmt, const char *types) {
  th_buffer inputs;
  th_buffer_init(&inputs, &t->ir->arena);
  uint16_t count = 0;
  for (const char *at = types; *at;) {
    size_t size = strcspn(at, ";");
    bool is_none = size == 1 && *at == '-';
    th_buffer_printf(&inputs, "%sv%u %.*s", count ? "; " : "", count,
                     is_none ? 5 : (int)size, is_none ? "f32[]" : at);
    if (count < stmt->out_count && is_none != !stmt->outs[count]) {
      return false;
    }
    count++;
    at += size + (at[size] ? 2 : 0);
  }
  th_trace *wanted = ir_text_read(t, inputs.data ? inputs.data : "", "");
  bool same = wanted && count == stmt->out_count;
  for (uint16_t i = 0; same && i < count; i++) {
    same = !stmt->outs[i] ||
           th_type_equal(&stmt->outs[i]->type, &wanted->inputs[i]->type);
  }
  return same;
}

const char *ir_text_types(ir_text *t, const th_stmt *stmt) {
  th_buffer out;
  th_buffer_init(&out, &t->ir->arena);
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    th_buffer type;
    th_buffer_init(&type, &t->ir->arena);
    th_buffer_puts(&out, i ? "; " : "");
    if (!stmt->outs[i]) {
      th_buffer_putc(&out, '-');
      continue;
    }
    th_type_print(&type, &stmt->outs[i]->type);
    th_buffer_puts(&out, type.data + (strncmp(type.data, "cpu ", 4) ? 0 : 4));
  }
  return out.data ? out.data : "";
}
