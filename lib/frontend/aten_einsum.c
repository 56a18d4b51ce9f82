// einsum, two operands at a time, as one matrix product over
//
//   [labels that stay and both have, labels of the left, labels that vanish]
//   [labels that stay and both have, labels that vanish, labels of the right]
#include "frontend/aten.h"

#include <ctype.h>
#include <string.h>

// A value with a letter for each dimension.
typedef struct einsum_term {
  th_value *value;
  char labels[TH_MAX_RANK + 1];
} einsum_term;

typedef struct einsum_job {
  th_call *call;
  th_builder *b;
  char result[TH_MAX_RANK + 1];
  char dots[TH_MAX_RANK + 1]; // letters that stand for "..."
} einsum_job;

static th_status einsum_unsupported(const einsum_job *job) {
  return job->b->status ? job->b->status
                        : th_call_unsupported(job->call, "such an equation");
}

// Letters of one operand up to a comma or arrow; "..." takes capital digits
// from the end, right-aligned.  False: too many, or not as many as dimensions.
static bool einsum_labels(einsum_job *job, const char **at, int rank,
                          char *out) {
  int count = 0, dots = -1;
  const char *end = *at;
  while (*end && *end != ',' && *end != '-') {
    end++;
  }
  for (const char *c = *at; c < end; c++) {
    if (isalpha((unsigned char)*c) && count < TH_MAX_RANK) {
      out[count++] = *c;
    } else if (strncmp(c, "...", 3) == 0 && dots < 0) {
      dots = count;
      c += 2;
    } else if (*c != ' ') {
      return false;
    }
  }
  *at = end;
  int more = rank < 0 ? (int)strlen(job->dots) : rank - count;
  if (dots < 0 || more < 0) {
    out[count] = '\0';
    return more == 0 || rank < 0;
  }
  if (count + more > TH_MAX_RANK || more > 10) {
    return false;
  }
  memmove(out + dots + more, out + dots, (size_t)(count - dots));
  for (int i = 0; i < more; i++) {
    out[dots + i] = (char)('0' + 10 - more + i);
  }
  out[count + more] = '\0';
  if (rank >= 0 && more > (int)strlen(job->dots)) {
    memcpy(job->dots, out + dots, (size_t)more);
    job->dots[more] = '\0';
  }
  return true;
}

// Without an arrow: "..." and then the letters that occur once, sorted.
static void einsum_implicit(einsum_job *job, const char *equation) {
  size_t n = strlen(job->dots);
  memcpy(job->result, job->dots, n);
  for (int c = 'A'; c <= 'z' && n < TH_MAX_RANK; c++) {
    const char *first = isalpha(c) ? strchr(equation, c) : NULL;
    if (first && !strchr(first + 1, c)) {
      job->result[n++] = (char)c;
    }
  }
  job->result[n] = '\0';
}

// A letter twice in one operand: its diagonal.
static void einsum_diagonals(einsum_job *job, einsum_term *term) {
  th_ir *ir = job->b->ir;
  for (int i = 0; term->labels[i]; i++) {
    const char *twin = strchr(term->labels + i + 1, term->labels[i]);
    if (!twin) {
      continue;
    }
    int k = (int)(twin - term->labels);
    char label = term->labels[i];
    term->value = TH_BUILD(job->b, diagonal, th_v(term->value), th_i(ir, 0),
                           th_i(ir, i), th_i(ir, k));
    memmove(term->labels + k, term->labels + k + 1, strlen(term->labels + k));
    memmove(term->labels + i, term->labels + i + 1, strlen(term->labels + i));
    size_t n = strlen(term->labels);
    term->labels[n] = label;
    term->labels[n + 1] = '\0';
    i = -1;
  }
}

// Sums over letters that neither `other` nor the result has.
static void einsum_sum(einsum_job *job, einsum_term *term, const char *other) {
  int64_t dims[TH_MAX_RANK];
  char kept[TH_MAX_RANK + 1];
  uint32_t count = 0, n = 0;
  for (int i = 0; term->labels[i]; i++) {
    char c = term->labels[i];
    if (strchr(other, c) || strchr(job->result, c)) {
      kept[n++] = c;
    } else {
      dims[count++] = i;
    }
  }
  if (count == 0) {
    return;
  }
  kept[n] = '\0';
  memcpy(term->labels, kept, n + 1);
  term->value =
      TH_BUILD(job->b, sum, th_v(term->value), th_ints(job->b->ir, dims, count),
               th_b(job->b->ir, false),
               th_d(term->value ? term->value->type.dtype : TH_F32));
}

// Letters of groups in a row, as many as a value may have.
static void einsum_join(char *out, const char *const *groups, int count) {
  size_t n = 0;
  for (int i = 0; i < count; i++) {
    for (const char *c = groups[i]; *c && n < TH_MAX_RANK; c++) {
      out[n++] = *c;
    }
  }
  out[n] = '\0';
}

static void einsum_permute(einsum_job *job, einsum_term *term,
                           const char *order) {
  int64_t dims[TH_MAX_RANK];
  uint32_t n = 0;
  for (const char *c = order; *c; c++) {
    const char *found = strchr(term->labels, *c);
    if (found) {
      dims[n++] = found - term->labels;
    }
  }
  term->value = TH_BUILD(job->b, permute, th_v(term->value),
                         th_ints(job->b->ir, dims, n));
  if (term->value && n == strlen(order)) {
    memcpy(term->labels, order, n + 1);
  }
}

static const th_expr *einsum_size(const einsum_term *term, char label) {
  const char *found = strchr(term->labels, label);
  return found && term->value ? term->value->type.dims[found - term->labels]
                              : NULL;
}

// The product of sizes of some letters.
static const th_expr *einsum_volume(th_ir *ir, const einsum_term *term,
                                    const char *labels) {
  const th_expr *all = th_int(ir, 1);
  for (const char *c = labels; *c && all; c++) {
    const th_expr *size = einsum_size(term, *c);
    all = size ? th_expr_mul(ir, all, size) : NULL;
  }
  return all;
}

// [batch.., rows, columns] of an operand whose letters lie so.
static th_value *einsum_matrix(einsum_job *job, const einsum_term *term,
                               const char *batch, const char *rows,
                               const char *columns) {
  th_ir *ir = job->b->ir;
  const th_expr *dims[TH_MAX_RANK + 2];
  uint32_t n = 0;
  for (const char *c = batch; *c; c++) {
    dims[n++] = einsum_size(term, *c);
  }
  dims[n++] = einsum_volume(ir, term, rows);
  dims[n++] = einsum_volume(ir, term, columns);
  return TH_BUILD(job->b, reshape, th_v(term->value), th_nums(ir, dims, n));
}

typedef struct einsum_groups {
  char batch[TH_MAX_RANK + 1], left[TH_MAX_RANK + 1];
  char right[TH_MAX_RANK + 1], inner[TH_MAX_RANK + 1];
} einsum_groups;

// Whether a size of 1 stands for any; those are broadcast, not multiplied.
static bool einsum_broadcasts(einsum_job *job, const einsum_term *x,
                              const einsum_term *y) {
  for (int i = 0; x->labels[i]; i++) {
    const th_expr *a = einsum_size(x, x->labels[i]);
    const th_expr *c = einsum_size(y, x->labels[i]);
    if (a && c && th_expr_known(job->b->ir, TH_X_EQ, a, c) == 0) {
      return true;
    }
  }
  return false;
}

static void einsum_group(const einsum_job *job, const einsum_term *x,
                         const einsum_term *y, einsum_groups *g) {
  size_t nb = 0, nl = 0, nr = 0, ni = 0;
  for (int i = 0; x->labels[i]; i++) {
    char c = x->labels[i];
    if (!strchr(y->labels, c)) {
      g->left[nl++] = c;
    } else if (strchr(job->result, c)) {
      g->batch[nb++] = c;
    } else {
      g->inner[ni++] = c;
    }
  }
  for (int i = 0; y->labels[i]; i++) {
    if (!strchr(x->labels, y->labels[i])) {
      g->right[nr++] = y->labels[i];
    }
  }
  g->batch[nb] = g->left[nl] = g->right[nr] = g->inner[ni] = '\0';
}

// All letters of both as dimensions, multiplied and summed.
static void einsum_multiply(einsum_job *job, einsum_term *x, einsum_term *y,
                            const einsum_groups *g) {
  einsum_term out = {0};
  th_arg args[2];
  const char *groups[] = {g->batch, g->left, g->right, g->inner};
  einsum_join(out.labels, groups, 4);
  einsum_term *terms[] = {x, y};
  for (int t = 0; t < 2; t++) {
    einsum_permute(job, terms[t], out.labels);
    for (int i = 0; out.labels[i]; i++) {
      bool has =
          terms[t]->value && strchr(t ? y->labels : x->labels, out.labels[i]);
      if (!has) {
        terms[t]->value = TH_BUILD(job->b, unsqueeze, th_v(terms[t]->value),
                                   th_i(job->b->ir, i));
      }
    }
    args[t] = th_v(terms[t]->value);
  }
  out.value = TH_BUILD(job->b, mul, args[0], args[1]);
  *x = out;
}

// x becomes the product of both.
static void einsum_pair(einsum_job *job, einsum_term *x, einsum_term *y,
                        const char *later) {
  einsum_groups g;
  einsum_sum(job, x, strlen(later) ? later : y->labels);
  einsum_group(job, x, y, &g);
  size_t letters = strlen(g.batch) + strlen(g.left) + strlen(g.right);
  if (letters + strlen(g.inner) > TH_MAX_RANK || letters + 2 > TH_MAX_RANK) {
    einsum_unsupported(job);
    job->b->status = TH_UNSUPPORTED;
    return;
  }
  if (!g.inner[0] || einsum_broadcasts(job, x, y)) {
    einsum_multiply(job, x, y, &g);
    return;
  }
  char order[TH_MAX_RANK + 1];
  einsum_join(order, (const char *[]){g.batch, g.left, g.inner}, 3);
  einsum_permute(job, x, order);
  einsum_join(order, (const char *[]){g.batch, g.inner, g.right}, 3);
  einsum_permute(job, y, order);
  th_value *a = einsum_matrix(job, x, g.batch, g.left, g.inner);
  th_value *c = einsum_matrix(job, y, g.batch, g.inner, g.right);
  th_value *product = TH_BUILD(job->b, matmul, th_v(a), th_v(c));
  const th_expr *dims[TH_MAX_RANK];
  einsum_term out = {0};
  einsum_join(out.labels, (const char *[]){g.batch, g.left, g.right}, 3);
  for (int i = 0; out.labels[i]; i++) {
    const th_expr *size = einsum_size(x, out.labels[i]);
    dims[i] = size ? size : einsum_size(y, out.labels[i]);
  }
  out.value = TH_BUILD(job->b, reshape, th_v(product),
                       th_nums(job->b->ir, dims, (uint32_t)strlen(out.labels)));
  *x = out;
}

// Letters that terms from `first` on or the result still need.
static void einsum_later(const einsum_job *job, const einsum_term *terms,
                         uint32_t first, uint32_t count, char *out) {
  size_t n = 0;
  for (int c = '0'; c <= 'z'; c++) {
    bool needed = strchr(job->result, c) != NULL;
    for (uint32_t i = first; i < count; i++) {
      needed |= strchr(terms[i].labels, c) != NULL;
    }
    if (needed) {
      out[n++] = (char)c;
    }
  }
  out[n] = '\0';
}

static th_status einsum_parse(einsum_job *job, const char *equation,
                              einsum_term *terms, uint32_t count) {
  const char *at = equation;
  for (uint32_t i = 0; i < count; i++) {
    if (!terms[i].value ||
        !einsum_labels(job, &at, terms[i].value->type.rank, terms[i].labels)) {
      return einsum_unsupported(job);
    }
    bool more = i + 1 < count;
    if (more ? *at != ',' : *at == ',') {
      return einsum_unsupported(job);
    }
    at += more;
  }
  if (*at == '\0') {
    einsum_implicit(job, equation);
    return TH_OK;
  }
  at += 2; // "->"
  return at[-1] == '>' && einsum_labels(job, &at, -1, job->result) &&
                 *at == '\0'
             ? TH_OK
             : einsum_unsupported(job);
}

static th_status einsum_run(einsum_job *job, einsum_term *terms,
                            uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    einsum_diagonals(job, &terms[i]);
  }
  for (uint32_t i = 1; i < count; i++) {
    char later[128], outer[TH_MAX_RANK + 1];
    einsum_later(job, terms, i, count, later);
    einsum_sum(job, &terms[0], later);
    einsum_sum(job, &terms[i], terms[0].labels);
    // For this pair the result is all that is needed afterwards.
    memcpy(outer, job->result, sizeof outer);
    einsum_later(job, terms, i + 1, count, later);
    if (strlen(later) > TH_MAX_RANK) {
      return einsum_unsupported(job);
    }
    memcpy(job->result, later, strlen(later) + 1);
    einsum_pair(job, &terms[0], &terms[i], "");
    memcpy(job->result, outer, sizeof outer);
    TH_TRY(job->b->status);
  }
  einsum_sum(job, &terms[0], "");
  einsum_permute(job, &terms[0], job->result);
  return th_call_return(job->call, terms[0].value);
}

th_status th_aten_einsum(th_call *call) {
  einsum_job job = {.call = call, .b = call->graph->b};
  const th_pt2_arg *equation = th_call_arg(call, "equation");
  const th_pt2_arg *tensors = th_call_arg(call, "tensors");
  if (equation->kind != TH_PT2_STRING || tensors->count == 0) {
    return einsum_unsupported(&job);
  }
  einsum_term *terms =
      TH_NEW_ARRAY(call->graph->arena, einsum_term, tensors->count);
  for (uint32_t i = 0; i < tensors->count; i++) {
    th_arg item = th_call_value(call, &tensors->items[i]);
    terms[i].value = item.kind == TH_ARG_VALUE ? item.value : NULL;
  }
  TH_TRY(einsum_parse(&job, equation->text, terms, tensors->count));
  return einsum_run(&job, terms, tensors->count);
}
