// Traces as text; IR.md describes the language.
//
// One line for each statement.  Three kinds of comment carry meaning: types,
// locations, and the bodies of regions and kernels, whose lines are comments
// so that the text stays valid Python.  A location is written where it
// changes.
#include "ir/expand.h"
#include "ir/text.h"

#include <string.h>

typedef struct printer {
  th_buffer *out;
  const th_trace *trace; // NULL: a statement alone
  const th_print_options *options;
  const bool *declared; // by symbol index: written in an outer header
  const char *scope;    // what the last location comment said
  th_loc loc;
  int indent;
  bool comment; // lines are comments: inside a region
} printer;

// ---- shared conventions

size_t th_text_label_executor(const char *label) {
  static const char *const words[] = {"Fusion", "Kernel"};
  size_t size = strlen(label), digits = 0;
  while (digits < size && label[size - 1 - digits] >= '0' &&
         label[size - 1 - digits] <= '9') {
    digits++;
  }
  size -= digits;
  for (size_t i = 0; digits && i < TH_COUNT(words); i++) {
    size_t n = strlen(words[i]);
    if (size > n && memcmp(label + size - n, words[i], n) == 0) {
      return size - n;
    }
  }
  return 0;
}

bool th_text_same_loc(th_loc a, th_loc b) {
  if (!a.file || !b.file) {
    return a.file == b.file;
  }
  return strcmp(a.file, b.file) == 0 && a.line == b.line &&
         a.column == b.column;
}

static void print_begin(printer *p) {
  th_buffer_printf(p->out, "%*s%s", p->indent, "", p->comment ? "# " : "");
}

static void print_end(printer *p) { th_buffer_putc(p->out, '\n'); }

// ---- operands

static bool print_is_numeric(const th_param *param) {
  return param && (param->kind == TH_P_OPERAND || param->kind == TH_P_NUMBER ||
                   param->kind == TH_P_INT || param->kind == TH_P_INTS ||
                   param->kind == TH_P_FLOAT || param->kind == TH_P_BOOL);
}

// A lone name is a value where there is one of that name, so a symbol that is
// called like a value stands in parentheses.  Where a number is wanted, the
// value reads as its number.
static void print_number(printer *p, const th_expr *num,
                         const th_param *param) {
  const th_value *value = p->trace && num->op == TH_X_SYM
                              ? th_map_get(&p->trace->names, num->symbol->name)
                              : NULL;
  bool same = value && value->type.kind == TH_KIND_NUMBER &&
              value->type.num == num && print_is_numeric(param);
  th_buffer_puts(p->out, value && !same ? "(" : "");
  th_expr_print(p->out, num);
  th_buffer_puts(p->out, value && !same ? ")" : "");
}

static void print_device(printer *p, th_device device, bool call) {
  char text[24];
  th_buffer_puts(p->out, call ? "device(" : "");
  th_text_quote(p->out, th_device_text(device, text, sizeof text), '\'');
  th_buffer_puts(p->out, call ? ")" : "");
}

static void print_arg(printer *p, const th_arg *arg, const th_param *param);

static void print_items(printer *p, const th_arg *arg, const th_param *param,
                        const char *open, const char *close) {
  th_buffer_puts(p->out, open);
  for (uint32_t i = 0; i < arg->count; i++) {
    th_buffer_puts(p->out, i ? ", " : "");
    if (arg->kind == TH_ARG_DICT) {
      th_text_quote(p->out, arg->keys[i], '\'');
      th_buffer_puts(p->out, ": ");
    }
    print_arg(p, &arg->items[i], param);
  }
  th_buffer_puts(p->out, close);
}

static void print_arg(printer *p, const th_arg *arg, const th_param *param) {
  switch (arg->kind) {
  case TH_ARG_NONE:
    th_buffer_puts(p->out, "None");
    break;
  case TH_ARG_VALUE:
    th_buffer_puts(p->out, arg->value->name);
    break;
  case TH_ARG_NUM:
    print_number(p, arg->num, param);
    break;
  case TH_ARG_STRING:
    th_text_quote(p->out, arg->text, '\'');
    break;
  case TH_ARG_DTYPE:
    th_buffer_puts(p->out, th_dtype_name(arg->dtype));
    break;
  case TH_ARG_DEVICE:
    print_device(p, arg->device, !param || param->kind != TH_P_DEVICE);
    break;
  case TH_ARG_LIST:
    print_items(p, arg, param, "[", "]");
    break;
  case TH_ARG_TUPLE:
    print_items(p, arg, param, "(", arg->count == 1 ? ",)" : ")");
    break;
  case TH_ARG_DICT:
    print_items(p, arg, param, "{", "}");
    break;
  case TH_ARG_TRACE:
    th_buffer_puts(p->out, arg->trace->name);
    break;
  }
}

// An argument that reads like its default is left out; those after it then
// need their names.
static void print_args(printer *p, const th_stmt *stmt) {
  const th_op_info *op = stmt->op;
  bool skipped = false, first = true;
  th_buffer_putc(p->out, '(');
  for (uint32_t i = 0; i < stmt->arg_count; i++) {
    uint32_t last = op->param_count ? op->param_count - 1u : 0;
    const th_param *param = &op->params[i < last ? i : last];
    size_t before = p->out->size;
    th_buffer_puts(p->out, first ? "" : ", ");
    if (skipped) {
      th_buffer_printf(p->out, "%s=", param->name);
    }
    size_t start = p->out->size;
    print_arg(p, &stmt->args[i], param);
    if (param->has_default &&
        strcmp(p->out->data + start, param->default_text) == 0) {
      p->out->size = before;
      p->out->data[before] = '\0';
      skipped = true;
    } else {
      first = false;
    }
  }
  th_buffer_putc(p->out, ')');
}

// ---- statements

static void print_targets(printer *p, const th_stmt *stmt) {
  bool list = stmt->op->outs == TH_OUTS_LIST;
  if (stmt->out_count == 0) {
    return;
  }
  bool bare = !list && stmt->out_count == 1;
  th_buffer_puts(p->out, bare ? "" : list ? "[" : "(");
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    th_buffer_printf(p->out, "%s%s", i ? ", " : "",
                     stmt->outs[i] ? stmt->outs[i]->name : "_");
  }
  th_buffer_puts(p->out, bare ? " = " : list ? "] = " : ") = ");
}

static void print_callee(printer *p, const th_stmt *stmt) {
  size_t n = stmt->label ? th_text_label_executor(stmt->label) : 0;
  bool implied = n && stmt->executor && strlen(stmt->executor) == n &&
                 memcmp(stmt->executor, stmt->label, n) == 0;
  if (stmt->executor && !implied) {
    th_buffer_printf(p->out, "%s.", stmt->executor);
  } else if (!stmt->executor && n) {
    th_buffer_puts(p->out, "_.");
  }
  th_buffer_puts(p->out, stmt->label ? stmt->label : stmt->op->name);
  th_buffer_puts(p->out, stmt->in_place ? "_" : "");
}

static void print_type(printer *p, const th_value *value) {
  th_buffer_printf(p->out, "%s: \"", value->name);
  th_type_print(p->out, &value->type);
  th_buffer_putc(p->out, '"');
  if (value->slab >= 0) {
    th_buffer_printf(p->out, " @%lld", (long long)value->slab);
  }
}

// A region's results have their types where its body makes them.
static void print_types(printer *p, const th_stmt *stmt) {
  bool first = true;
  for (uint16_t i = 0; i < stmt->out_count && !stmt->body_count; i++) {
    if (stmt->outs[i]) {
      th_buffer_puts(p->out, first ? "  # " : ", ");
      print_type(p, stmt->outs[i]);
      first = false;
    }
  }
}

static void print_line(printer *p, const th_stmt *stmt) {
  if (stmt->op->op == TH_OP_del) {
    th_buffer_puts(p->out, "del ");
    for (uint16_t i = 0; i < stmt->arg_count; i++) {
      th_buffer_puts(p->out, i ? ", " : "");
      print_arg(p, &stmt->args[i], NULL);
    }
    return;
  }
  print_targets(p, stmt);
  print_callee(p, stmt);
  print_args(p, stmt);
  print_types(p, stmt);
}

static void print_place(printer *p, const char *scope, th_loc loc) {
  if (*scope) {
    th_text_word(p->out, scope);
  } else {
    th_buffer_putc(p->out, '-');
  }
  th_buffer_puts(p->out, "  ");
  if (!loc.file) {
    th_buffer_putc(p->out, '-');
    return;
  }
  th_text_word(p->out, loc.file);
  th_buffer_printf(p->out, ":%d", loc.line > 0 ? loc.line : 0);
  if (loc.column > 0) {
    th_buffer_printf(p->out, ":%d", loc.column);
  }
}

static void print_location(printer *p, const th_stmt *stmt) {
  const char *scope = stmt->scope ? stmt->scope : "";
  if (p->options->no_locations ||
      (strcmp(scope, p->scope) == 0 && th_text_same_loc(stmt->loc, p->loc))) {
    return;
  }
  if (!p->comment) {
    print_end(p);
  }
  print_begin(p);
  th_buffer_puts(p->out, "# ");
  print_place(p, scope, stmt->loc);
  print_end(p);
  p->scope = scope;
  p->loc = stmt->loc;
}

// What a composite means, one level, as comments that no reader minds.
static void print_expansion(printer *p, const th_stmt *stmt) {
  th_trace *scratch = th_trace_new(p->trace->ir, "expansion");
  th_builder b;
  th_builder_init(&b, scratch);
  th_value **outs =
      TH_NEW_ARRAY(&scratch->ir->arena, th_value *, stmt->out_count + 1u);
  if (th_expand(&b, stmt, outs) != TH_OK) {
    return;
  }
  const char *base =
      stmt->out_count && stmt->outs[0] ? stmt->outs[0]->name : stmt->op->name;
  for (uint32_t i = 1; i < scratch->value_count; i++) {
    scratch->values[i]->name =
        th_arena_printf(&scratch->ir->arena, "%s.%u", base, i);
  }
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    if (stmt->outs[i] && outs[i] && outs[i]->def) {
      outs[i]->name = stmt->outs[i]->name;
    }
  }
  printer inner = *p;
  inner.indent += TH_TEXT_INDENT;
  inner.comment = true;
  for (uint32_t i = 0; i < scratch->stmt_count; i++) {
    print_begin(&inner);
    print_line(&inner, scratch->stmts[i]);
    print_end(&inner);
  }
}

static void print_subtraces(printer *p, const th_stmt *stmt);

static void print_stmt(printer *p, const th_stmt *stmt) {
  print_location(p, stmt);
  print_subtraces(p, stmt);
  print_begin(p);
  print_line(p, stmt);
  print_end(p);
  printer inner = *p;
  inner.indent += TH_TEXT_INDENT;
  inner.comment = true;
  for (uint32_t i = 0; i < stmt->body_count; i++) {
    print_stmt(&inner, stmt->body[i]);
  }
  if (p->options->expand && stmt->op->expand) {
    print_expansion(p, stmt);
  }
}

// ---- headers

typedef struct print_symbols {
  bool *used;
  uint32_t count;
} print_symbols;

static void print_use_symbol(void *user, const th_symbol *symbol) {
  print_symbols *symbols = user;
  if (symbol->index < symbols->count) {
    symbols->used[symbol->index] = true;
  }
}

static void print_use_number(void *user, const th_expr *num) {
  th_expr_symbols(num, print_use_symbol, user);
}

static void print_use_stmt(print_symbols *symbols, const th_stmt *stmt) {
  th_stmt_numbers(stmt, print_use_number, symbols);
  for (uint32_t i = 0; i < stmt->body_count; i++) {
    print_use_stmt(symbols, stmt->body[i]);
  }
}

static void print_use_trace(print_symbols *symbols, const th_trace *trace) {
  // A statement that holds the numbers of inputs and result.
  th_stmt ends = {.args = (th_arg *)(uintptr_t)&trace->result,
                  .arg_count = 1,
                  .outs = trace->inputs};
  for (uint32_t i = 0; i < trace->input_count; i++) {
    ends.outs = &trace->inputs[i];
    ends.out_count = 1;
    th_stmt_numbers(&ends, print_use_number, symbols);
  }
  ends.out_count = 0;
  th_stmt_numbers(&ends, print_use_number, symbols);
  for (uint32_t i = 0; i < trace->stmt_count; i++) {
    print_use_stmt(symbols, trace->stmts[i]);
  }
}

static void print_bound(th_buffer *out, int64_t bound) {
  if (bound == INT64_MIN || bound == INT64_MAX) {
    th_buffer_puts(out, bound == INT64_MIN ? "-inf" : "inf");
  } else {
    th_buffer_printf(out, "%lld", (long long)bound);
  }
}

static void print_symbol(printer *p, const th_symbol *symbol) {
  print_begin(p);
  th_buffer_printf(p->out, "# %s: \"%s\"", symbol->name,
                   symbol->dtype == TH_F64    ? "float"
                   : symbol->dtype == TH_BOOL ? "bool"
                                              : "int");
  if (symbol->dtype == TH_I64) {
    th_buffer_puts(p->out, " in [");
    print_bound(p->out, symbol->min);
    th_buffer_puts(p->out, ", ");
    print_bound(p->out, symbol->max);
    th_buffer_putc(p->out, ']');
  }
  print_end(p);
}

static void print_header_symbols(printer *p) {
  const th_ir *ir = p->trace->ir;
  print_symbols symbols = {
      TH_NEW_ARRAY(p->out->arena, bool, ir->symbol_count + 1u),
      ir->symbol_count};
  print_use_trace(&symbols, p->trace);
  for (uint32_t i = 0; i < symbols.count; i++) {
    bool outer = p->declared && p->declared[i];
    if (symbols.used[i] && !outer) {
      print_symbol(p, ir->symbol_list[i]);
    }
    symbols.used[i] |= outer;
  }
  p->declared = symbols.used;
}

static void print_input(printer *p, const th_value *value) {
  static const char *const kinds[] = {"", "param", "buffer", "constant"};
  const th_input *input = value->input;
  print_begin(p);
  th_buffer_puts(p->out, "# ");
  print_type(p, value);
  if (input && input->kind != TH_INPUT_USER) {
    const char *fqn = input->fqn ? input->fqn : "";
    bool lost = input->kind == TH_INPUT_BUFFER && !input->persistent;
    th_buffer_printf(p->out, "  %s%s ", kinds[input->kind],
                     lost ? " non-persistent" : "");
    if (strcmp(fqn, "non-persistent") == 0) {
      th_text_quote(p->out, fqn, '"');
    } else {
      th_text_word(p->out, fqn);
    }
  }
  print_end(p);
}

static void print_provenance(printer *p) {
  const char *text = p->trace->provenance;
  size_t size = strcspn(text, "\r\n");
  const char *time = strstr(text, "(took ");
  if (p->options->mask_time && time && (size_t)(time - text) < size) {
    size = (size_t)(time - text);
  }
  th_buffer_puts(p->out, "# ");
  th_buffer_append(p->out, text, size);
  th_buffer_puts(p->out, p->options->mask_time && time ? "(took N ms)" : "");
  print_end(p);
}

static void print_decorators(printer *p) {
  const th_trace *trace = p->trace;
  static const char *const directions[] = {NULL, "forward", "backward"};
  if (trace->direction != TH_NO_DIRECTION) {
    print_begin(p);
    th_buffer_printf(p->out, "@%s\n", directions[trace->direction]);
  }
  if (trace->no_grad) {
    print_begin(p);
    th_buffer_puts(p->out, "@no_grad\n");
  }
  if (trace->has_autocast) {
    print_begin(p);
    th_buffer_printf(p->out, "@autocast(%s)\n", th_dtype_name(trace->autocast));
  }
  if (trace->slab_size >= 0) {
    print_begin(p);
    th_buffer_printf(p->out, "@slab(%lld)\n", (long long)trace->slab_size);
  }
}

static void print_trace(printer *p) {
  const th_trace *trace = p->trace;
  print_decorators(p);
  print_begin(p);
  th_buffer_printf(p->out, "def %s(", trace->name);
  for (uint32_t i = 0; i < trace->input_count; i++) {
    th_buffer_printf(p->out, "%s%s", i ? ", " : "", trace->inputs[i]->name);
  }
  th_buffer_puts(p->out, "):\n");
  p->indent += TH_TEXT_INDENT;
  for (uint32_t i = 0; i < trace->input_count; i++) {
    print_input(p, trace->inputs[i]);
  }
  print_header_symbols(p);
  for (uint32_t i = 0; i < trace->stmt_count; i++) {
    print_stmt(p, trace->stmts[i]);
  }
  print_begin(p);
  th_buffer_puts(p->out, "return ");
  print_arg(p, &trace->result, NULL);
  print_end(p);
}

static void print_subtraces(printer *p, const th_stmt *stmt) {
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    if (stmt->args[i].kind == TH_ARG_TRACE) {
      printer inner = {.out = p->out,
                       .trace = stmt->args[i].trace,
                       .options = p->options,
                       .declared = p->declared,
                       .scope = "",
                       .indent = p->indent,
                       .comment = p->comment};
      print_trace(&inner);
    }
  }
}

void th_trace_print(th_buffer *buffer, const th_trace *trace,
                    const th_print_options *options) {
  static const th_print_options plain = {.expand = false};
  printer p = {.out = buffer,
               .trace = trace,
               .options = options ? options : &plain,
               .scope = ""};
  if (trace->provenance) {
    print_provenance(&p);
  }
  print_trace(&p);
}

void th_stmt_print(th_buffer *buffer, const th_stmt *stmt) {
  static const th_print_options plain = {.expand = false};
  printer p = {.out = buffer, .options = &plain, .scope = ""};
  print_line(&p, stmt);
}
