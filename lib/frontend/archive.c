// Opening archives: which container it is, which programs it holds, and what
// each takes.
//
//   torch >= 2.8   <root>/archive_format "pt2"
//                  <root>/models/<program>.json
//                  <root>/data/...
//   before         serialized_exported_program.json and three pickles
//
// A program's JSON is read when somebody asks for it.
#include "frontend/archive.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

// ---- the bytes -------------------------------------------------------------

struct th_pt2_source {
  atomic_uint refs;
  th_file file; // data NULL: the caller's memory
  th_deleter release;
  void *user;
};

th_pt2_source *th_pt2_source_retain(th_pt2_source *source) {
  atomic_fetch_add_explicit(&source->refs, 1, memory_order_relaxed);
  return source;
}

void th_pt2_source_release(void *object) {
  th_pt2_source *source = object;
  if (atomic_fetch_sub_explicit(&source->refs, 1, memory_order_acq_rel) != 1) {
    return;
  }
  th_file_unmap(&source->file);
  if (source->release) {
    source->release(source->user);
  }
  th_free(source);
}

bool th_pt2_source_is_foreign(const th_pt2_source *source) {
  return !source->file.data;
}

// ---- checked access to JSON ------------------------------------------------

th_status th_json_error(th_json_place place, const th_json *at, const char *fmt,
                        ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return th_error(place.ctx, TH_PARSE, (th_loc){.file = place.where},
                  "byte %u: %s", at ? at->at : 0, text);
}

static bool archive_fits(const th_json *value, th_json_kind kind) {
  return value->kind == kind ||
         (kind == TH_JSON_FLOAT && value->kind == TH_JSON_INT);
}

th_status th_json_need(th_json_place place, const th_json *object,
                       const char *key, th_json_kind kind,
                       const th_json **out_value) {
  const th_json *value = th_json_get(object, key);
  if (value && archive_fits(value, kind)) {
    *out_value = value;
    return TH_OK;
  }
  th_json wanted = {.kind = kind};
  th_json_error(place, value ? value : object, "'%s' should be %s, and is %s",
                key, th_json_describe(&wanted), th_json_describe(value));
  return TH_PARSE;
}

th_status th_json_union(th_json_place place, const th_json *value,
                        const th_json **out_tag, const th_json **out_value) {
  if (!th_json_is(value, TH_JSON_OBJECT) || value->count != 1) {
    th_json_error(place, value,
                  "should be an object with one member, and is %s",
                  th_json_describe(value));
    return TH_PARSE;
  }
  *out_tag = th_json_first(value);
  *out_value = *out_tag + 1;
  return TH_OK;
}

// Source: torch/_export/serde/schema.py, ScalarType.  Not c10's numbers.
bool th_pt2_dtype(int64_t code, th_dtype *out_dtype, const char **out_name) {
  static const struct {
    const char *name;
    th_dtype dtype;
  } types[] = {
      [0] = {"unknown", TH_DTYPE_COUNT},
      [1] = {"uint8", TH_U8},
      [2] = {"int8", TH_I8},
      [3] = {"int16", TH_I16},
      [4] = {"int32", TH_I32},
      [5] = {"int64", TH_I64},
      [6] = {"float16", TH_F16},
      [7] = {"float32", TH_F32},
      [8] = {"float64", TH_F64},
      [9] = {"complex32", TH_DTYPE_COUNT},
      [10] = {"complex64", TH_DTYPE_COUNT},
      [11] = {"complex128", TH_DTYPE_COUNT},
      [12] = {"bool", TH_BOOL},
      [13] = {"bfloat16", TH_BF16},
      [28] = {"uint16", TH_DTYPE_COUNT},
      [29] = {"float8_e4m3fn", TH_F8_E4M3FN},
      [30] = {"float8_e5m2", TH_F8_E5M2},
      [31] = {"float8_e4m3fnuz", TH_DTYPE_COUNT},
      [32] = {"float8_e5m2fnuz", TH_DTYPE_COUNT},
      [33] = {"float8_e8m0fnu", TH_F8_E8M0FNU},
      [34] = {"uint32", TH_DTYPE_COUNT},
      [35] = {"uint64", TH_DTYPE_COUNT},
  };
  *out_name = "unknown";
  *out_dtype = TH_DTYPE_COUNT;
  if (code >= 0 && code < (int64_t)TH_COUNT(types) && types[code].name) {
    *out_name = types[code].name;
    *out_dtype = types[code].dtype;
  }
  return *out_dtype != TH_DTYPE_COUNT;
}

// ---- containers ------------------------------------------------------------

const th_zip_entry *th_pt2_entry(th_pt2 *archive, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  char *rest = th_arena_vprintf(&archive->arena, fmt, args);
  va_end(args);
  return th_zip_find(&archive->zip, th_arena_printf(&archive->arena, "%s%s",
                                                    archive->root, rest));
}

static bool archive_ends(const char *text, const char *suffix) {
  size_t n = strlen(text), k = strlen(suffix);
  return n >= k && strcmp(text + n - k, suffix) == 0;
}

static void archive_add_program(th_pt2 *archive, const char *name,
                                const th_zip_entry *entry) {
  th_pt2_program *p = &TH_PUSH(&archive->arena, archive->programs,
                               archive->program_count, archive->program_cap);
  *p = (th_pt2_program){.name = name, .entry = entry};
  p->where = th_arena_printf(&archive->arena, "%s: %s", archive->name,
                             entry->name + strlen(archive->root));
}

// The folder that holds archive_format; NULL: none does.
static const char *archive_root(th_pt2 *archive) {
  static const char mark[] = "archive_format";
  for (uint32_t i = 0; i < archive->zip.count; i++) {
    const char *name = archive->zip.entries[i].name;
    size_t length = strlen(name);
    bool is_whole = strcmp(name, mark) == 0;
    if (is_whole || archive_ends(name, "/archive_format")) {
      return th_arena_strndup(&archive->arena, name,
                              length - (sizeof mark - 1));
    }
  }
  return NULL;
}

static th_status archive_not_one(th_pt2 *archive, const char *what) {
  return th_error(archive->ctx, TH_PARSE, (th_loc){.file = archive->name}, "%s",
                  what);
}

static th_status archive_check_order(th_pt2 *archive) {
  const th_zip_entry *entry = th_pt2_entry(archive, "byteorder");
  char *text = NULL;
  if (!entry) {
    return TH_OK;
  }
  TH_TRY(th_zip_read(&archive->zip, entry, &text));
  if (entry->size < 6 || memcmp(text, "little", 6) != 0) {
    return th_error(archive->ctx, TH_UNSUPPORTED,
                    (th_loc){.file = archive->name},
                    "weights are not little-endian");
  }
  return TH_OK;
}

static th_status archive_find_programs(th_pt2 *archive) {
  const th_zip_entry *flat =
      th_zip_find(&archive->zip, "serialized_exported_program.json");
  archive->root = flat ? "" : archive_root(archive);
  if (!archive->root) {
    return archive_not_one(archive, "a zip file, but no exported program: "
                                    "no entry 'archive_format'");
  }
  if (flat) {
    archive->is_flat = true;
    archive_add_program(archive, "model", flat);
    return TH_OK;
  }
  TH_TRY(archive_check_order(archive));
  const char *folder =
      th_arena_printf(&archive->arena, "%smodels/", archive->root);
  size_t skip = strlen(folder);
  for (uint32_t i = 0; i < archive->zip.count; i++) {
    const th_zip_entry *entry = &archive->zip.entries[i];
    if (strncmp(entry->name, folder, skip) == 0 &&
        archive_ends(entry->name, ".json") && strlen(entry->name) > skip + 5) {
      archive_add_program(archive,
                          th_arena_strndup(&archive->arena, entry->name + skip,
                                           strlen(entry->name) - skip - 5),
                          entry);
    }
  }
  return archive->program_count
             ? TH_OK
             : archive_not_one(archive, "holds no program (no models/*.json; "
                                        "a package of compiled code?)");
}

typedef struct archive_job {
  th_pt2 *archive;
  th_file file;
  const char *name;
} archive_job;

static th_status archive_read(void *arg) {
  archive_job *job = arg;
  th_pt2 *archive = job->archive;
  archive->name = th_arena_strdup(&archive->arena, job->name);
  th_map_init(&archive->storages, &archive->arena);
  th_map_init(&archive->samples, &archive->arena);
  TH_TRY(th_zip_open(archive->ctx, &archive->arena, archive->name,
                     job->file.data, job->file.size, &archive->zip));
  return archive_find_programs(archive);
}

static th_status archive_open(th_context *ctx, archive_job *job,
                              const th_pt2_options *options,
                              th_pt2_source **source, th_pt2 **out_archive) {
  if (options && options->size < sizeof options->size) {
    return th_error(ctx, TH_INVALID, (th_loc){.file = job->name},
                    "th_pt2_options: size is %zu, not sizeof(th_pt2_options)",
                    options->size);
  }
  th_pt2 *archive = th_calloc(1, sizeof *archive);
  th_pt2_source *bytes = th_calloc(1, sizeof *bytes);
  if (!archive || !bytes) {
    th_free(archive);
    th_free(bytes);
    return th_error(ctx, TH_NO_MEMORY, (th_loc){.file = job->name},
                    "out of memory");
  }
  atomic_init(&bytes->refs, 1);
  archive->ctx = ctx;
  archive->source = bytes;
  th_arena_init(&archive->arena, &ctx->unwind);
  if (options) {
    size_t known =
        options->size < sizeof *options ? options->size : sizeof *options;
    memcpy(&archive->options, options, known);
  }
  job->archive = archive;
  th_status status = th_protect(&ctx->unwind, archive_read, job);
  if (status != TH_OK) {
    th_pt2_free(archive);
    return status;
  }
  *source = bytes;
  *out_archive = archive;
  return TH_OK;
}

th_status th_pt2_open(th_context *ctx, const char *path,
                      const th_pt2_options *options, th_pt2 **out_archive) {
  archive_job job = {.name = path};
  th_pt2_source *source;
  TH_TRY(th_file_map(ctx, path, &job.file));
  th_status status = archive_open(ctx, &job, options, &source, out_archive);
  if (status != TH_OK) {
    th_file_unmap(&job.file);
    return status;
  }
  source->file = job.file;
  return TH_OK;
}

th_status th_pt2_open_memory(th_context *ctx, const char *name,
                             const void *data, size_t size, th_deleter release,
                             void *user, const th_pt2_options *options,
                             th_pt2 **out_archive) {
  // Nobody writes: storages over foreign bytes are read-only.
  archive_job job = {.name = name ? name : "memory",
                     .file = {.data = (char *)(uintptr_t)data, .size = size}};
  th_pt2_source *source;
  TH_TRY(archive_open(ctx, &job, options, &source, out_archive));
  source->release = release;
  source->user = user;
  return TH_OK;
}

void th_pt2_free(th_pt2 *archive) {
  if (!archive) {
    return;
  }
  th_pt2_drop_weights(archive);
  for (uint32_t i = 0; i < archive->replacement_count; i++) {
    th_safetensors_free(archive->replacements[i]);
  }
  th_arena_deinit(&archive->arena);
  th_pt2_source_release(archive->source);
  th_free(archive);
}

// ---- programs --------------------------------------------------------------

size_t th_pt2_program_count(const th_pt2 *archive) {
  return archive->program_count;
}

const char *th_pt2_program_name(const th_pt2 *archive, size_t index) {
  return index < archive->program_count ? archive->programs[index].name : NULL;
}

const char *th_pt2_default_program(const th_pt2 *archive) {
  for (uint32_t i = 0; i < archive->program_count; i++) {
    if (strcmp(archive->programs[i].name, "train_ir") == 0) {
      return "train_ir";
    }
  }
  return archive->programs[0].name;
}

typedef struct archive_input {
  th_json_place place;
  th_pt2_input *input;
} archive_input;

static th_status archive_named(archive_input *job, const th_json *spec,
                               const char *fqn_key) {
  const th_json *arg = NULL, *name = NULL, *fqn = NULL;
  TH_TRY(th_json_need(job->place, spec, "arg", TH_JSON_OBJECT, &arg));
  TH_TRY(th_json_need(job->place, arg, "name", TH_JSON_STRING, &name));
  TH_TRY(th_json_need(job->place, spec, fqn_key, TH_JSON_STRING, &fqn));
  job->input->name = name->text;
  job->input->fqn = fqn->text;
  job->input->is_tensor = true;
  return TH_OK;
}

static th_status archive_user_input(archive_input *job, const th_json *spec) {
  const th_json *arg = NULL, *tag = NULL, *value = NULL, *name = NULL;
  TH_TRY(th_json_need(job->place, spec, "arg", TH_JSON_OBJECT, &arg));
  TH_TRY(th_json_union(job->place, arg, &tag, &value));
  bool is_tensor = strcmp(tag->text, "as_tensor") == 0;
  const char *key = is_tensor ? "name" : "as_name";
  if (!is_tensor && strncmp(tag->text, "as_sym_", 7) != 0) {
    return th_json_error(job->place, tag, "an input of kind '%s' is not known",
                         tag->text);
  }
  TH_TRY(th_json_need(job->place, value, key, TH_JSON_STRING, &name));
  job->input->name = name->text;
  job->input->is_tensor = is_tensor;
  return TH_OK;
}

// One of signature.input_specs.
static th_status archive_input_spec(archive_input *job, const th_json *spec) {
  const th_json *tag = NULL, *value = NULL, *field = NULL;
  th_pt2_input *input = job->input;
  TH_TRY(th_json_union(job->place, spec, &tag, &value));
  const char *kind = tag->text;
  if (strcmp(kind, "parameter") == 0) {
    input->kind = TH_PT2_PARAM;
    return archive_named(job, value, "parameter_name");
  }
  if (strcmp(kind, "buffer") == 0) {
    input->kind = TH_PT2_BUFFER;
    field = th_json_get(value, "persistent");
    input->persistent = !field || field->i != 0;
    return archive_named(job, value, "buffer_name");
  }
  if (strcmp(kind, "tensor_constant") == 0) {
    input->kind = TH_PT2_CONSTANT;
    return archive_named(job, value, "tensor_constant_name");
  }
  if (strcmp(kind, "user_input") == 0) {
    return archive_user_input(job, value);
  }
  if (strcmp(kind, "constant_input") == 0) {
    TH_TRY(th_json_need(job->place, value, "name", TH_JSON_STRING, &field));
    input->name = field->text;
    return TH_OK;
  }
  return th_error(job->place.ctx, TH_UNSUPPORTED,
                  (th_loc){.file = job->place.where},
                  "byte %u: an input of kind '%s' (an object that is no "
                  "tensor) is not supported",
                  tag->at, kind);
}

static th_status archive_inputs(th_pt2 *archive, th_pt2_program *program) {
  th_json_place place = {archive->ctx, program->where};
  const th_json *module = NULL, *signature = NULL, *specs = NULL;
  TH_TRY(th_json_need(place, program->json, "graph_module", TH_JSON_OBJECT,
                      &module));
  TH_TRY(th_json_need(place, module, "signature", TH_JSON_OBJECT, &signature));
  TH_TRY(th_json_need(place, signature, "input_specs", TH_JSON_ARRAY, &specs));
  program->inputs = TH_NEW_ARRAY(&archive->arena, th_pt2_input, specs->count);
  for (TH_JSON_EACH(spec, specs)) {
    archive_input job = {place, &program->inputs[program->input_count]};
    TH_TRY(archive_input_spec(&job, spec));
    program->input_count++;
  }
  return TH_OK;
}

static th_status archive_check_version(th_pt2 *archive,
                                       th_pt2_program *program) {
  enum { MAJOR = 8 };
  th_json_place place = {archive->ctx, program->where};
  const th_json *version = NULL, *major = NULL;
  TH_TRY(th_json_need(place, program->json, "schema_version", TH_JSON_OBJECT,
                      &version));
  TH_TRY(th_json_need(place, version, "major", TH_JSON_INT, &major));
  if (major->i != MAJOR) {
    return th_error(archive->ctx, TH_UNSUPPORTED,
                    (th_loc){.file = program->where},
                    "written in version %lld of the format; %d is read",
                    (long long)major->i, MAJOR);
  }
  return TH_OK;
}

static th_status archive_load(th_pt2 *archive, th_pt2_program *program) {
  char *text;
  TH_TRY(th_zip_read(&archive->zip, program->entry, &text));
  TH_TRY(th_json_parse(archive->ctx, &archive->arena, program->where, 0, text,
                       program->entry->size, &program->json));
  program->input_count = 0;
  th_status status = archive_check_version(archive, program);
  if (status == TH_OK) {
    status = archive_inputs(archive, program);
  }
  if (status != TH_OK) {
    program->json = NULL;
  }
  return status;
}

th_status th_pt2_program_find(th_pt2 *archive, const char *name,
                              th_pt2_program **out_program) {
  if (!name) {
    name = th_pt2_default_program(archive);
  }
  for (uint32_t i = 0; i < archive->program_count; i++) {
    th_pt2_program *program = &archive->programs[i];
    if (strcmp(program->name, name) == 0) {
      *out_program = program;
      return program->json ? TH_OK : archive_load(archive, program);
    }
  }
  return th_error(archive->ctx, TH_NOT_FOUND, (th_loc){.file = archive->name},
                  "no program '%s'; the first is '%s'", name,
                  archive->programs[0].name);
}

typedef struct archive_inputs_job {
  th_pt2 *archive;
  const char *name;
  th_pt2_program *program;
} archive_inputs_job;

static th_status archive_find_protected(void *arg) {
  archive_inputs_job *job = arg;
  return th_pt2_program_find(job->archive, job->name, &job->program);
}

th_status th_pt2_inputs(th_pt2 *archive, const char *program,
                        const th_pt2_input **out_inputs, size_t *out_count) {
  archive_inputs_job job = {archive, program, NULL};
  TH_TRY(th_protect(&archive->ctx->unwind, archive_find_protected, &job));
  *out_inputs = job.program->inputs;
  *out_count = job.program->input_count;
  return TH_OK;
}
