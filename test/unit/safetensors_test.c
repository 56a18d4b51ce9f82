// Safetensors: reading, writing, hostile files.
#include "thunder/safetensors.h"

#include "tensor/tensor.h"
#include "torture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static th_context *context;
static char folder[] = "/tmp/thunder-safetensors-XXXXXX";
static char path[100];

static void safetensors_setup(void) {
  th_guard_pages_set(false);
  context = th_context_new();
  cr_assert_not_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/a.safetensors", folder);
}

static void safetensors_teardown(void) {
  th_context_free(context);
  remove(path);
  cr_assert_eq(rmdir(folder), 0, "files were left behind");
}

TestSuite(safetensors, .init = safetensors_setup, .fini = safetensors_teardown);

#define DIMS(...) ((int64_t[]){__VA_ARGS__})

// A file's bytes on the heap, of the exact size so that ASan sees every
// over-read; `data` bytes of zeros follow the header.
static char *safetensors_bytes(const char *header, size_t data,
                               size_t *out_size) {
  size_t length = strlen(header);
  *out_size = 8 + length + data;
  char *bytes = calloc(1, *out_size);
  for (int i = 0; i < 8; i++) {
    bytes[i] = (char)((uint64_t)length >> (8 * i));
  }
  memcpy(bytes + 8, header, length);
  return bytes;
}

static th_safetensors *safetensors_of(const char *header, size_t data) {
  size_t size;
  char *bytes = safetensors_bytes(header, data, &size);
  th_safetensors *file = NULL;
  cr_assert_eq(
      th_safetensors_open_memory(context, "m", bytes, size, free, bytes, &file),
      TH_OK, "%s", th_diagnostics_all(context));
  return file;
}

Test(safetensors, what_is_written_is_read) {
  th_tensor *tensors[TH_DTYPE_COUNT];
  const char *names[TH_DTYPE_COUNT];
  for (int i = 0; i < TH_DTYPE_COUNT; i++) {
    th_tensor_new(context, (th_dtype)i, 2, DIMS(3, 5), &tensors[i]);
    for (int64_t j = 0; j < 15; j++) {
      th_tensor_set_int(tensors[i], j, j % 2 + 1);
    }
    names[i] = th_dtype_name((th_dtype)i);
  }
  th_safetensors_pair pairs[] = {
      {"cases", "{\"a\": \"\\\"\"}\n\x01"},
      {"\xc3\xa9", ""},
  };
  cr_assert_eq(th_safetensors_write(context, path, names, tensors,
                                    TH_DTYPE_COUNT, pairs, 2),
               TH_OK);
  th_safetensors *file;
  cr_assert_eq(th_safetensors_open(context, path, &file), TH_OK, "%s",
               th_diagnostics_all(context));
  cr_assert_eq(th_safetensors_count(file), TH_DTYPE_COUNT);
  cr_assert_eq(th_safetensors_metadata_count(file), 2);
  for (size_t i = 0; i < 2; i++) {
    cr_assert_str_eq(th_safetensors_metadata_key(file, i), pairs[i].key);
    cr_assert_str_eq(th_safetensors_metadata(file, pairs[i].key),
                     pairs[i].value);
  }
  cr_assert_null(th_safetensors_metadata(file, "absent"));
  for (int i = 0; i < TH_DTYPE_COUNT; i++) {
    th_tensor *tensor;
    cr_assert_eq(th_safetensors_tensor(file, names[i], &tensor), TH_OK);
    cr_assert(th_tensor_equal(tensor, tensors[i]), "%s", names[i]);
    th_tensor_release(tensor);
    th_tensor_release(tensors[i]);
  }
  th_safetensors_free(file);
}

Test(safetensors, tensors_lie_in_the_file_and_outlive_it) {
  th_tensor *tensor;
  th_tensor_new(context, TH_F32, 1, DIMS(4), &tensor);
  th_tensor_fill(context, tensor, 3);
  const char *names[] = {"a", "b"};
  th_tensor *both[] = {tensor, tensor};
  cr_assert_eq(th_safetensors_write(context, path, names, both, 2, NULL, 0),
               TH_OK);
  th_safetensors *file;
  th_tensor *a;
  th_tensor *b;
  th_safetensors_open(context, path, &file);
  th_safetensors_tensor(file, "a", &a);
  th_safetensors_tensor(file, "b", &b);
  cr_assert_eq((char *)th_tensor_data(b) - (char *)th_tensor_data(a), 16);
  cr_assert_not(th_tensor_shares_storage(a, b));
  th_safetensors_free(file);
  // Writing changes the private pages only.
  th_tensor_set(a, 0, 9);
  cr_assert_eq(th_tensor_get(a, 0), 9);
  cr_assert_eq(th_tensor_get(b, 3), 3);
  th_safetensors_open(context, path, &file);
  th_tensor *again;
  th_safetensors_tensor(file, "a", &again);
  cr_assert_eq(th_tensor_get(again, 0), 3);
  th_safetensors_free(file);
  th_tensor_release(again);
  th_tensor_release(b);
  th_tensor_release(a);
  th_tensor_release(tensor);
}

Test(safetensors, with_guard_pages_tensors_are_copied_behind_one) {
  th_safetensors *file = safetensors_of(
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}  ",
      12);
  th_guard_pages_set(true);
  th_tensor *tensor;
  cr_assert_eq(th_safetensors_tensor(file, "a", &tensor), TH_OK);
  cr_assert_eq(((uintptr_t)th_tensor_data(tensor) + 12) % 4096, 0);
  th_safetensors_free(file);
  th_tensor_release(tensor);
}

Test(safetensors, views_are_written_as_they_look) {
  th_tensor *base;
  th_tensor *turned;
  th_tensor_new(context, TH_I32, 2, DIMS(2, 3), &base);
  for (int64_t i = 0; i < 6; i++) {
    th_tensor_set_int(base, i, i);
  }
  th_tensor_view(context, base, 2, DIMS(3, 2), DIMS(1, 3), 0, &turned);
  const char *name = "t";
  cr_assert_eq(th_safetensors_write(context, path, &name, &turned, 1, NULL, 0),
               TH_OK);
  th_safetensors *file;
  th_tensor *back;
  th_safetensors_open(context, path, &file);
  th_safetensors_tensor(file, "t", &back);
  cr_assert(th_tensor_is_contiguous(back) && th_tensor_equal(back, turned));
  th_tensor_release(back);
  th_safetensors_free(file);
  th_tensor_release(turned);
  th_tensor_release(base);
}

Test(safetensors, headers_as_others_write_them) {
  th_safetensors *file = safetensors_of(
      " {\n\"\\u00e9\\ud83d\\ude00\\/\" : { \"shape\":[ ], \"more\":[1.5e3,"
      "{\"a\":null}, true, \"x\"], \"dtype\":\"F32\", "
      "\"data_offsets\": [ 0 , 4 ]},"
      "\"z\":{\"dtype\":\"F64\",\"shape\":[0,9223372036854775807],"
      "\"data_offsets\":[4,4]},\"__metadata__\":{}}   ",
      4);
  cr_assert_eq(th_safetensors_count(file), 2);
  cr_assert_str_eq(th_safetensors_name(file, 0), "\xc3\xa9\xf0\x9f\x98\x80/");
  cr_assert_null(th_safetensors_name(file, 2));
  cr_assert(th_safetensors_has(file, "z"));
  cr_assert_not(th_safetensors_has(file, "__metadata__"));
  th_tensor *tensor;
  cr_assert_eq(
      th_safetensors_tensor(file, th_safetensors_name(file, 0), &tensor),
      TH_OK);
  cr_assert_eq(th_tensor_rank(tensor), 0);
  th_tensor_release(tensor);
  // An empty shape, but its strides cannot be written down.
  cr_assert_eq(th_safetensors_tensor(file, "z", &tensor), TH_INVALID);
  th_safetensors_free(file);
}

Test(safetensors, what_is_not_supported_is_an_error_when_asked_for) {
  th_safetensors *file = safetensors_of(
      "{\"c\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]},"
      "\"q\":{\"dtype\":\"Q3\",\"shape\":[5],\"data_offsets\":[8,9]},"
      "\"r\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1],"
      "\"data_offsets\":[9,10]}}",
      10);
  th_tensor *tensor;
  cr_assert_eq(th_safetensors_tensor(file, "c", &tensor), TH_UNSUPPORTED);
  cr_assert_eq(th_safetensors_tensor(file, "q", &tensor), TH_UNSUPPORTED);
  cr_assert_eq(th_safetensors_tensor(file, "r", &tensor), TH_UNSUPPORTED);
  cr_assert_eq(th_safetensors_tensor(file, "x", &tensor), TH_NOT_FOUND);
  cr_assert_str_eq(
      th_diagnostics_all(context),
      "m: error: byte 9: tensor 'c': dtype C64 is not supported\n"
      "m: error: byte 62: tensor 'q': dtype Q3 is not supported\n"
      "m: error: byte 114: tensor 'r': rank 13, at most 12 is supported\n"
      "m: error: no tensor 'x'\n");
  th_safetensors_free(file);
}

Test(safetensors, unaligned_tensors_are_copied) {
  th_safetensors *file = safetensors_of(
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[1,9]},"
      "\"c\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[9,17]}}",
      17);
  static const char *const names[] = {"b", "c"};
  for (int i = 0; i < 2; i++) {
    th_tensor *tensor;
    cr_assert_eq(th_safetensors_tensor(file, names[i], &tensor), TH_OK);
    cr_assert_eq((uintptr_t)th_tensor_data(tensor) % 8, 0);
    cr_assert_eq(th_tensor_get(tensor, 0), 0);
    th_tensor_release(tensor);
  }
  th_safetensors_free(file);
}

#define ENTRY(name, dtype, shape, begin, end)                                  \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape                     \
  ",\"data_offsets\":[" begin "," end "]}"

static const struct {
  const char *header;
  size_t data;
  const char *error;
} safetensors_bad[] = {
    {"", 0, "byte 8: the text ends where a value is expected"},
    {"[]", 0, "byte 8: expected an object, not a list"},
    {"{", 0, "byte 9: expected a key"},
    {"{\"a\"", 0, "byte 12: expected ':'"},
    {"{\"a", 0, "byte 11: the text ends inside a string"},
    {"{\"a\\", 0, "byte 12: unknown escape"},
    {"{\"a\\q\":1}", 0, "byte 13: unknown escape"},
    {"{\"\\u12g4\":1}", 0, "byte 12: \\u needs four hexadecimal digits"},
    {"{\"\\ud800\":1}", 0,
     "byte 16: a string holds a zero byte or half a character"},
    {"{\"\\u0000\":1}", 0,
     "byte 16: a string holds a zero byte or half a character"},
    {"{\"a\n\":1}", 0, "byte 11: a string holds a control character"},
    {"{\"ab\xff\":1}", 0, "byte 12: a string is not UTF-8"},
    {"{} x", 0, "byte 11: something follows the value"},
    {"{}", 3, "byte 10: no tensor has the last 3 bytes"},
    {"{\"a\":1}", 0, "byte 13: expected an object, not an integer"},
    {"{\"a\":{}}", 0, "byte 9: tensor 'a': no 'dtype'"},
    {"{\"a\":{\"dtype\":1}}", 0, "byte 22: expected a string, not an integer"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 0,
     "byte 9: tensor 'a': no 'data_offsets'"},
    {"{\"a\":{\"shape\":[],\"shape\":[]}}", 0,
     "byte 25: tensor 'a': 'shape' twice"},
    {"{\"a\":{\"shape\":[-1]}}", 0,
     "byte 23: expected an integer that is not negative"},
    {"{\"a\":{\"shape\":[01]}}", 0, "byte 23: a number begins with a zero"},
    {"{\"a\":{\"shape\":[1.0]}}", 0,
     "byte 23: expected an integer that is not negative"},
    {"{\"a\":{\"shape\":[9223372036854775808]}}", 0,
     "byte 23: an integer does not fit into 64 bits"},
    {"{\"a\":{\"shape\":[1,]}}", 0, "byte 25: expected a value"},
    {"{\"a\":{\"data_offsets\":[1]}}", 0, "byte 29: expected two integers"},
    {"{" ENTRY("a", "F32", "[2]", "0", "4") "}", 4,
     "byte 9: tensor 'a': the shape takes 8 bytes, data_offsets give 4"},
    {"{" ENTRY("a", "F4", "[3]", "0", "1") "}", 1,
     "byte 9: tensor 'a': the shape overflows"},
    {"{" ENTRY("a", "F32", "[4294967296,4294967296]", "0", "0") "}", 0,
     "byte 9: tensor 'a': the shape overflows"},
    {"{" ENTRY("a", "U8", "[1]", "1", "0") "}", 1,
     "byte 9: tensor 'a': data_offsets [1, 0] run backwards"},
    {"{" ENTRY("a", "U8", "[8]", "0", "8") "}", 7,
     "byte 9: tensor 'a': data_offsets end at 8, the file has 7 bytes of data"},
    {"{" ENTRY("a", "U8", "[2]", "0", "2") "," ENTRY("b", "U8", "[2]", "1",
                                                     "3") "}",
     3, "byte 61: tensor 'b' overlaps tensor 'a'"},
    {"{" ENTRY("a", "U8", "[1]", "2", "3") "}", 3,
     "byte 9: no tensor has the 2 bytes of data before tensor 'a'"},
    {"{" ENTRY("a", "U8", "[0]", "0", "0") "," ENTRY("a", "U8", "[0]", "0",
                                                     "0") "}",
     0, "byte 61: tensor 'a' twice"},
    {"{\"__metadata__\":{\"k\":1}}", 0,
     "byte 29: expected a string, not an integer"},
    {"{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", 0,
     "byte 32: metadata 'k' twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0,
     "byte 27: '__metadata__' twice"},
    {"{\"a\":{\"x\":?}}", 0, "byte 18: expected a value"},
    {"{\"a\":{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 0,
     "byte 58: the text ends where a value is expected"},
};

Test(safetensors, malformed_headers_get_one_located_error) {
  for (size_t i = 0; i < TH_COUNT(safetensors_bad); i++) {
    size_t size;
    char *bytes = safetensors_bytes(safetensors_bad[i].header,
                                    safetensors_bad[i].data, &size);
    th_safetensors *file = NULL;
    cr_expect_eq(th_safetensors_open_memory(context, "m", bytes, size, NULL,
                                            NULL, &file),
                 TH_PARSE, "%s", safetensors_bad[i].header);
    cr_expect_eq(th_diagnostic_count(context), 1);
    char want[200];
    snprintf(want, sizeof want, "m: error: %s", safetensors_bad[i].error);
    cr_expect_str_eq(th_diagnostic_text(context, 0), want, "%s: got %s",
                     safetensors_bad[i].header, th_diagnostic_text(context, 0));
    th_diagnostics_clear(context);
    free(bytes);
  }
}

Test(safetensors, every_truncation_is_an_error) {
  size_t size;
  char *bytes = safetensors_bytes(
      "{" ENTRY("a", "F32", "[1]", "0", "4") ",\"__metadata__\":{\"k\":\"v\"}}",
      4, &size);
  for (size_t cut = 0; cut < size; cut++) {
    char *part = malloc(cut + 1); // exact, but for 0
    memcpy(part, bytes, cut);
    th_safetensors *file = NULL;
    part = realloc(part, cut ? cut : 1);
    cr_assert_eq(
        th_safetensors_open_memory(context, "m", part, cut, NULL, NULL, &file),
        TH_PARSE, "%zu", cut);
    cr_assert_eq(th_diagnostic_count(context), 1);
    th_diagnostics_clear(context);
    free(part);
  }
  free(bytes);
}

Test(safetensors, a_huge_header_length_is_refused) {
  char bytes[16];
  memset(bytes, 0xff, sizeof bytes);
  th_safetensors *file;
  cr_assert_eq(th_safetensors_open_memory(context, "m", bytes, sizeof bytes,
                                          NULL, NULL, &file),
               TH_PARSE);
  cr_assert_str_eq(th_diagnostic_text(context, 0),
                   "m: error: byte 0: a header of 18446744073709551615 bytes, "
                   "the limit is 100000000");
}

Test(safetensors, files_that_cannot_be_opened_are_named) {
  th_safetensors *file;
  cr_assert_eq(th_safetensors_open(context, path, &file), TH_IO);
  cr_assert(strstr(th_diagnostic_text(context, 0), path));
  cr_assert_eq(th_safetensors_open(context, folder, &file), TH_IO);
  FILE *empty = fopen(path, "w");
  fclose(empty);
  cr_assert_eq(th_safetensors_open(context, path, &file), TH_PARSE);
}

Test(safetensors, bad_names_are_not_written) {
  th_tensor *tensor;
  th_tensor_new(context, TH_F32, 0, NULL, &tensor);
  th_tensor *both[] = {tensor, tensor};
  const char *twice[] = {"a", "a"};
  const char *latin = "\xe9";
  const char *reserved = "__metadata__";
  th_safetensors_pair pairs[] = {{"k", "1"}, {"k", "2"}};
  cr_assert_eq(th_safetensors_write(context, path, twice, both, 2, NULL, 0),
               TH_INVALID);
  cr_assert_eq(th_safetensors_write(context, path, &latin, both, 1, NULL, 0),
               TH_INVALID);
  cr_assert_eq(th_safetensors_write(context, path, &reserved, both, 1, NULL, 0),
               TH_INVALID);
  cr_assert_eq(th_safetensors_write(context, path, NULL, NULL, 0, pairs, 2),
               TH_INVALID);
  const char *none = NULL;
  th_tensor *nothing = NULL;
  pairs[0].value = NULL;
  cr_assert_eq(th_safetensors_write(context, path, &none, both, 1, NULL, 0),
               TH_INVALID);
  cr_assert_eq(th_safetensors_write(context, path, twice, &nothing, 1, NULL, 0),
               TH_INVALID);
  cr_assert_eq(th_safetensors_write(context, path, NULL, NULL, 0, pairs, 1),
               TH_INVALID);
  cr_assert_neq(access(path, F_OK), 0);
  cr_assert_eq(
      th_safetensors_write(context, "/nowhere/at/all", twice, both, 1, NULL, 0),
      TH_IO);
  th_tensor_release(tensor);
}

Test(safetensors, an_old_file_stays_until_the_new_one_is_whole) {
  th_tensor *tensor;
  th_tensor_new(context, TH_F32, 0, NULL, &tensor);
  const char *name = "a";
  cr_assert_eq(th_safetensors_write(context, path, &name, &tensor, 1, NULL, 0),
               TH_OK);
  struct stat before;
  struct stat after;
  stat(path, &before);
  const char *bad = "\xff";
  cr_assert_eq(th_safetensors_write(context, path, &bad, &tensor, 1, NULL, 0),
               TH_INVALID);
  stat(path, &after);
  cr_assert(before.st_ino == after.st_ino && before.st_size == after.st_size);
  th_tensor_release(tensor);
}

Test(safetensors, memory_stays_below_the_stated_multiple) {
  // Many small entries cost the most for their length.
  enum { COUNT = 20000, ENTRY_SIZE = 64 };
  char *header = malloc((size_t)COUNT * ENTRY_SIZE + 2);
  size_t used = 0;
  for (int i = 0; i < COUNT; i++) {
    used += (size_t)sprintf(header + used,
                            "%c\"%x\":{\"dtype\":\"U8\",\"shape\":[0],"
                            "\"data_offsets\":[0,0]}",
                            i ? ',' : '{', i);
  }
  strcpy(header + used, "}");
  th_safetensors *file = safetensors_of(header, 0);
  cr_assert_eq(th_safetensors_count(file), COUNT);
  // The arena is the one allocation that grows with the file.
  struct mirror {
    th_context *ctx;
    th_arena arena;
  } *inside = (struct mirror *)file;
  cr_assert(inside->arena.total <= 16 * used + 65536, "%zu for %zu",
            inside->arena.total, used);
  th_safetensors_free(file);
  free(header);
}

static th_status safetensors_read_work(void *user) {
  th_context *ctx = th_context_new();
  if (!ctx) {
    return TH_NO_MEMORY;
  }
  th_safetensors *file = NULL;
  th_tensor *tensor = NULL;
  th_status status = th_safetensors_open(ctx, user, &file);
  if (status == TH_OK) {
    status = th_safetensors_tensor(file, "a", &tensor);
  }
  th_tensor_release(tensor);
  th_safetensors_free(file);
  th_context_free(ctx);
  return status;
}

static th_status safetensors_write_work(void *user) {
  th_context *ctx = th_context_new();
  if (!ctx) {
    return TH_NO_MEMORY;
  }
  const char *names[] = {"a", "b"};
  th_tensor *both[] = {user, user};
  th_safetensors_pair pair = {"k", "v"};
  th_status status = th_safetensors_write(ctx, path, names, both, 2, &pair, 1);
  th_context_free(ctx);
  return status;
}

Test(safetensors, every_allocation_may_fail) {
  th_tensor *tensor;
  th_tensor *turned;
  th_tensor_new(context, TH_F32, 2, DIMS(40, 50), &tensor);
  th_tensor_view(context, tensor, 2, DIMS(50, 40), DIMS(1, 50), 0, &turned);
  torture(safetensors_write_work, turned);
  torture(safetensors_read_work, path);
  th_guard_pages_set(true);
  torture(safetensors_read_work, path);
  th_tensor_release(turned);
  th_tensor_release(tensor);
}
