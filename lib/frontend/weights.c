// Weights and samples: where each tensor lies, and tensors over it.
//
// In an archive of torch >= 2.9 a record names a file of raw bytes, which is a
// whole storage, and a window on it.  Before that, weights are the pickle of a
// dictionary whose storages are files again.  Both become th_pt2_record.
//
// Parameters and constants are windows on the mapped file; buffers are copies,
// since programs write to them.
#include "frontend/archive.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

// ---- records of the payload configurations ---------------------------------

static th_status weights_ints(th_json_place place, const th_json *meta,
                              const char *key, int *out_count, int64_t *out) {
  const th_json *list = NULL, *tag = NULL, *value = NULL;
  TH_TRY(th_json_need(place, meta, key, TH_JSON_ARRAY, &list));
  if (list->count > TH_MAX_RANK) {
    return th_json_error(place, list, "'%s' has %u dimensions; %d are allowed",
                         key, list->count, TH_MAX_RANK);
  }
  int count = 0;
  for (TH_JSON_EACH(item, list)) {
    TH_TRY(th_json_union(place, item, &tag, &value));
    if (strcmp(tag->text, "as_int") != 0 || value->kind != TH_JSON_INT) {
      return th_json_error(place, item, "'%s' of a weight is no integer", key);
    }
    out[count++] = value->i;
  }
  *out_count = count;
  return TH_OK;
}

static th_status weights_meta(th_json_place place, const th_json *meta,
                              th_pt2_record *record) {
  const th_json *dtype = NULL, *offset = NULL, *tag = NULL, *value = NULL;
  const char *name;
  int strides = 0;
  TH_TRY(th_json_need(place, meta, "dtype", TH_JSON_INT, &dtype));
  if (!th_pt2_dtype(dtype->i, &record->dtype, &name)) {
    record->bad_dtype = name;
  }
  TH_TRY(weights_ints(place, meta, "sizes", &record->rank, record->dims));
  TH_TRY(weights_ints(place, meta, "strides", &strides, record->strides));
  if (strides != record->rank) {
    return th_json_error(place, meta, "%d sizes and %d strides", record->rank,
                         strides);
  }
  TH_TRY(th_json_need(place, meta, "storage_offset", TH_JSON_OBJECT, &offset));
  TH_TRY(th_json_union(place, offset, &tag, &value));
  if (value->kind != TH_JSON_INT) {
    return th_json_error(place, value, "'storage_offset' is no integer");
  }
  record->offset = value->i;
  return TH_OK;
}

// A tensor of a torch.save file as a record.
static th_status weights_saved(th_pt2 *archive, th_saved *saved,
                               const char *fqn, const th_pickle_tensor *tensor,
                               th_pt2_record **out_record) {
  th_pt2_record *record = TH_NEW(&archive->arena, th_pt2_record);
  record->fqn = fqn;
  record->payload =
      th_arena_printf(&archive->arena, "%s: %s", saved->zip.name, tensor->key);
  record->dtype = tensor->dtype;
  record->rank = tensor->rank;
  memcpy(record->dims, tensor->dims, sizeof record->dims);
  memcpy(record->strides, tensor->strides, sizeof record->strides);
  record->offset = tensor->offset;
  *out_record = record;
  return th_saved_storage(saved, tensor->key, &record->data, &record->bytes);
}

// The zip file inside an entry.
static th_status weights_open_saved(th_pt2 *archive, const th_zip_entry *entry,
                                    th_saved *out_saved) {
  char *data;
  TH_TRY(th_zip_read(&archive->zip, entry, &data));
  const char *name = th_arena_printf(&archive->arena, "%s: %s", archive->name,
                                     entry->name + strlen(archive->root));
  return th_saved_open(archive->ctx, &archive->arena, name, data, entry->size,
                       out_saved);
}

typedef struct weights_config {
  th_pt2 *archive;
  th_json_place place;
  const char *folder; // "weights", "constants"
  th_map *map;
} weights_config;

static th_status weights_config_item(weights_config *job, const th_json *key) {
  th_pt2 *archive = job->archive;
  const th_json *item = key + 1, *path, *meta;
  TH_TRY(th_json_need(job->place, item, "path_name", TH_JSON_STRING, &path));
  meta = th_json_get(item, "tensor_meta");
  const th_json *use_pickle = th_json_get(item, "use_pickle");
  bool is_pickle =
      use_pickle && use_pickle->kind == TH_JSON_BOOL && use_pickle->i;
  const th_zip_entry *entry =
      th_pt2_entry(archive, "data/%s/%s", job->folder, path->text);
  if (!is_pickle && !th_json_is(meta, TH_JSON_OBJECT)) {
    return TH_OK; // an object that is no tensor
  }
  if (!entry) {
    return th_json_error(job->place, path, "no entry 'data/%s/%s' for '%s'",
                         job->folder, path->text, key->text);
  }
  th_pt2_record *record = NULL;
  if (is_pickle) {
    th_saved *saved = TH_NEW(&archive->arena, th_saved);
    TH_TRY(weights_open_saved(archive, entry, saved));
    if (saved->value->kind != TH_PICKLE_TENSOR) {
      return th_json_error(job->place, path, "'%s' holds no tensor",
                           path->text);
    }
    TH_TRY(weights_saved(archive, saved, key->text, saved->value->tensor,
                         &record));
  } else {
    record = TH_NEW(&archive->arena, th_pt2_record);
    record->fqn = key->text;
    record->payload = path->text;
    record->bytes = entry->size;
    TH_TRY(weights_meta(job->place, meta, record));
    TH_TRY(th_zip_read(&archive->zip, entry, &record->data));
  }
  th_map_put(job->map, key->text, record);
  return TH_OK;
}

static th_status weights_read_config(th_pt2 *archive, const char *folder,
                                     const th_zip_entry *entry, th_map *map) {
  char *text;
  TH_TRY(th_zip_read(&archive->zip, entry, &text));
  const char *where = th_arena_printf(&archive->arena, "%s: %s", archive->name,
                                      entry->name + strlen(archive->root));
  weights_config job = {archive, {archive->ctx, where}, folder, map};
  const th_json *root = NULL, *config = NULL;
  TH_TRY(th_json_parse(archive->ctx, &archive->arena, where, 0, text,
                       entry->size, &root));
  TH_TRY(th_json_need(job.place, root, "config", TH_JSON_OBJECT, &config));
  for (TH_JSON_EACH_KEY(key, config)) {
    TH_TRY(weights_config_item(&job, key));
  }
  return TH_OK;
}

// A pickled dictionary {fqn: tensor}.
static th_status weights_read_dict(th_pt2 *archive, const th_zip_entry *entry,
                                   th_map *map) {
  if (!entry || entry->size == 0) {
    return TH_OK;
  }
  th_saved *saved = TH_NEW(&archive->arena, th_saved);
  TH_TRY(weights_open_saved(archive, entry, saved));
  if (saved->value->kind != TH_PICKLE_DICT) {
    return th_error(archive->ctx, TH_PARSE, (th_loc){.file = saved->zip.name},
                    "holds no dictionary of tensors");
  }
  th_pickle **items = saved->value->items;
  for (uint32_t i = 0; i + 1 < saved->value->count; i += 2) {
    if (items[i]->kind != TH_PICKLE_STRING ||
        items[i + 1]->kind != TH_PICKLE_TENSOR) {
      continue; // no tensor: the graph says so when it needs it
    }
    th_pt2_record *record;
    TH_TRY(weights_saved(archive, saved, items[i]->text, items[i + 1]->tensor,
                         &record));
    th_map_put(map, record->fqn, record);
  }
  return TH_OK;
}

static th_status weights_read_folder(th_pt2 *archive, const char *program,
                                     const char *folder, th_map *map) {
  const th_zip_entry *config = th_pt2_entry(
      archive, "data/%s/%s_%s_config.json", folder, program, folder);
  if (config) {
    return weights_read_config(archive, folder, config, map);
  }
  return weights_read_dict(
      archive, th_pt2_entry(archive, "data/%s/%s.pt", folder, program), map);
}

th_status th_pt2_read_weights(th_pt2 *archive, th_pt2_program *program) {
  if (program->has_weights) {
    return TH_OK;
  }
  th_map_init(&program->weights, &archive->arena);
  th_map_init(&program->constants, &archive->arena);
  if (archive->is_flat) {
    TH_TRY(weights_read_dict(archive,
                             th_pt2_entry(archive, "serialized_state_dict.pt"),
                             &program->weights));
    TH_TRY(weights_read_dict(archive,
                             th_pt2_entry(archive, "serialized_constants.pt"),
                             &program->constants));
  } else {
    TH_TRY(weights_read_folder(archive, program->name, "weights",
                               &program->weights));
    TH_TRY(weights_read_folder(archive, program->name, "constants",
                               &program->constants));
  }
  program->has_weights = true;
  return TH_OK;
}

void th_pt2_drop_weights(th_pt2 *archive) {
  for (uint32_t i = 0; i < archive->storages.count; i++) {
    th_storage_release(archive->storages.entries[i].value);
  }
  for (uint32_t i = 0; i < archive->samples.count; i++) {
    th_tensor_release(archive->samples.entries[i].value);
  }
}

// ---- tensors over the file -------------------------------------------------

typedef struct weights_job {
  th_pt2 *archive;
  const char *program_name;
  const char *fqn;
  const char *path;
  th_pt2_program *program;
  th_tensor *tensor;
  th_tensor **tensors;
  size_t count, cap;
} weights_job;

static th_loc weights_place(const weights_job *job) {
  return (th_loc){.file =
                      job->program ? job->program->where : job->archive->name};
}

static th_status weights_wrap(th_pt2 *archive, const th_pt2_record *record,
                              th_storage **out_storage) {
  if ((uintptr_t)record->data % th_dtype_size(record->dtype) != 0) {
    TH_TRY(th_storage_new(archive->ctx, record->bytes, out_storage));
    memcpy((*out_storage)->data, record->data, record->bytes);
    return TH_OK;
  }
  bool is_foreign = th_pt2_source_is_foreign(archive->source);
  th_status (*wrap)(th_context *, void *, size_t, th_deleter, void *,
                    th_storage **) =
      is_foreign ? th_storage_wrap : th_storage_wrap_file;
  // Held before, since copied storage lets go of its source at once.
  th_pt2_source *source = th_pt2_source_retain(archive->source);
  th_status status = wrap(archive->ctx, record->data, record->bytes,
                          th_pt2_source_release, source, out_storage);
  if (status != TH_OK) {
    th_pt2_source_release(source);
    return status;
  }
  (*out_storage)->is_read_only = is_foreign;
  return TH_OK;
}

static th_status weights_storage(th_pt2 *archive, const th_pt2_record *record,
                                 th_storage **out_storage) {
  // By the place in the file: names repeat between folders and programs.
  const char *key =
      th_arena_printf(&archive->arena, "%p", (const void *)record->data);
  *out_storage = th_map_get(&archive->storages, key);
  if (*out_storage) {
    return TH_OK;
  }
  // An entry first, so that nothing unwinds while the storage hangs free.
  th_map_put(&archive->storages, key, NULL);
  TH_TRY(weights_wrap(archive, record, out_storage));
  th_map_put(&archive->storages, key, *out_storage);
  return TH_OK;
}

static th_status weights_check(const weights_job *job,
                               const th_pt2_record *record,
                               int64_t *out_numel) {
  int64_t extent;
  if (record->bad_dtype) {
    return th_error(job->archive->ctx, TH_UNSUPPORTED, weights_place(job),
                    "'%s' has elements of type %s", record->fqn,
                    record->bad_dtype);
  }
  th_status status =
      th_shape_check(NULL, record->dtype, record->rank, record->dims,
                     record->strides, out_numel, &extent);
  if (status != TH_OK || record->offset < 0) {
    return th_error(job->archive->ctx, TH_PARSE, weights_place(job),
                    "'%s' has impossible sizes or strides", record->fqn);
  }
  size_t size = th_dtype_size(record->dtype);
  if (record->bytes > 0 && *out_numel > 0 &&
      ((uint64_t)record->offset > record->bytes / size ||
       (uint64_t)extent > record->bytes / size - (uint64_t)record->offset)) {
    return th_error(job->archive->ctx, TH_PARSE, weights_place(job),
                    "'%s' reaches outside its storage of %zu bytes (%s)",
                    record->fqn, record->bytes, record->payload);
  }
  return TH_OK;
}

// ---- random weights --------------------------------------------------------

static uint64_t weights_next(uint64_t *state) {
  // splitmix64: https://prng.di.unimi.it/splitmix64.c
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Where uniform numbers are centred, and how far they reach: products keep
// activations near one, scales of norms are near one, variances positive.
static void weights_scale(const th_pt2_record *record, int64_t numel,
                          float *out_center, float *out_reach) {
  *out_center = 0;
  *out_reach = 0.02f;
  if (record->rank >= 2 && record->dims[0] > 0) {
    *out_reach = sqrtf(3.0f * (float)record->dims[0] / (float)numel);
  } else if (strstr(record->fqn, "var") || strstr(record->fqn, "weight")) {
    *out_center = 1;
    *out_reach = 0.1f;
  }
}

static th_status weights_random(th_pt2 *archive, const th_pt2_record *record,
                                const char *seed_name, int64_t numel,
                                th_tensor **out_tensor) {
  th_tensor *floats;
  bool is_float = th_dtype_is_float(record->dtype);
  TH_TRY(th_tensor_new(archive->ctx, is_float ? TH_F32 : record->dtype,
                       record->rank, record->dims, &floats));
  if (is_float) {
    uint64_t state =
        th_hash_bytes(seed_name, strlen(seed_name), archive->options.seed);
    float center, reach, *data = th_tensor_data(floats);
    weights_scale(record, numel, &center, &reach);
    for (int64_t i = 0; i < numel; i++) {
      float unit = (float)(weights_next(&state) >> 40) * 0x1p-24f;
      data[i] = center + reach * (2 * unit - 1);
    }
  }
  if (floats->dtype == record->dtype) {
    *out_tensor = floats;
    return TH_OK;
  }
  th_status status =
      th_tensor_to_dtype(archive->ctx, floats, record->dtype, out_tensor);
  th_tensor_release(floats);
  return status;
}

static bool weights_same_window(const th_pt2_record *a,
                                const th_pt2_record *b) {
  size_t size = (size_t)a->rank * sizeof *a->dims;
  return a->dtype == b->dtype && a->rank == b->rank && a->offset == b->offset &&
         memcmp(a->dims, b->dims, size) == 0 &&
         memcmp(a->strides, b->strides, size) == 0 &&
         strcmp(a->payload, b->payload) == 0;
}

// The first name of a tensor that has several.
static const th_pt2_record *weights_first(const th_pt2_program *program,
                                          const th_pt2_record *record) {
  const th_map *maps[] = {&program->weights, &program->constants};
  for (size_t m = 0; m < TH_COUNT(maps); m++) {
    bool here = th_map_get(maps[m], record->fqn) == record;
    for (uint32_t i = 0; here && i < maps[m]->count; i++) {
      const th_pt2_record *other = maps[m]->entries[i].value;
      if (weights_same_window(other, record)) {
        return other;
      }
    }
  }
  return record;
}

static th_status weights_made_up(weights_job *job, const th_pt2_record *record,
                                 int64_t numel) {
  th_pt2 *archive = job->archive;
  if (!archive->options.random_weights) {
    return th_error(archive->ctx, TH_INVALID, weights_place(job),
                    "'%s' was saved without data; random weights can stand in "
                    "(--random-weights SEED), or those of a safetensors file",
                    record->fqn);
  }
  const char *name = weights_first(job->program, record)->fqn;
  const char *key =
      th_arena_printf(&archive->arena, "%s: %s", job->program->name, name);
  th_tensor *made = th_map_get(&archive->samples, key);
  if (!made) {
    th_map_put(&archive->samples, key, NULL);
    TH_TRY(weights_random(archive, record, name, numel, &made));
    th_map_put(&archive->samples, key, made);
  }
  job->tensor = th_tensor_retain(made);
  return TH_OK;
}

// ---- replaced weights ------------------------------------------------------

// The name under which a file holds this weight: its own, or a tied one.
static const char *weights_name_in(const th_safetensors *file,
                                   const th_pt2_program *program,
                                   const th_pt2_record *record) {
  if (th_safetensors_has(file, record->fqn)) {
    return record->fqn;
  }
  for (uint32_t i = 0; i < program->weights.count; i++) {
    const th_pt2_record *other = program->weights.entries[i].value;
    if (weights_same_window(other, record) &&
        th_safetensors_has(file, other->fqn)) {
      return other->fqn;
    }
  }
  return NULL;
}

static bool weights_same_shape(const th_pt2_record *record,
                               const th_tensor *tensor) {
  return tensor->dtype == record->dtype && tensor->rank == record->rank &&
         memcmp(tensor->dims, record->dims,
                (size_t)record->rank * sizeof *record->dims) == 0;
}

static th_status weights_replaced(weights_job *job,
                                  const th_pt2_record *record) {
  th_pt2 *archive = job->archive;
  for (uint32_t i = archive->replacement_count; i-- > 0;) {
    th_safetensors *file = archive->replacements[i];
    const char *name = weights_name_in(file, job->program, record);
    if (!name) {
      continue;
    }
    TH_TRY(th_safetensors_tensor(file, name, &job->tensor));
    if (weights_same_shape(record, job->tensor)) {
      return TH_OK;
    }
    char got[512], want[512];
    th_tensor wanted = {.dtype = record->dtype, .rank = record->rank};
    memcpy(wanted.dims, record->dims, sizeof wanted.dims);
    th_strides_row_major(wanted.rank, wanted.dims, wanted.strides);
    th_status status =
        th_error(archive->ctx, TH_SHAPE, weights_place(job),
                 "'%s' is %s, and the tensor to replace it is %s", record->fqn,
                 th_tensor_describe(&wanted, want, sizeof want),
                 th_tensor_describe(job->tensor, got, sizeof got));
    th_tensor_release(job->tensor);
    job->tensor = NULL;
    return status;
  }
  return TH_OK;
}

static th_status weights_check_names(weights_job *job,
                                     const th_safetensors *file) {
  th_pt2 *archive = job->archive;
  for (size_t i = 0; i < th_safetensors_count(file); i++) {
    const char *name = th_safetensors_name(file, i);
    bool found = false;
    for (uint32_t p = 0; p < archive->program_count && !found; p++) {
      found = th_map_get(&archive->programs[p].weights, name) ||
              th_map_get(&archive->programs[p].constants, name);
    }
    if (!found) {
      return th_error(archive->ctx, TH_NOT_FOUND, (th_loc){.file = job->path},
                      "'%s' is no parameter or buffer of %s", name,
                      archive->name);
    }
  }
  return TH_OK;
}

static th_status weights_replace(void *arg) {
  weights_job *job = arg;
  th_pt2 *archive = job->archive;
  for (uint32_t i = 0; i < archive->program_count; i++) {
    TH_TRY(th_pt2_read_weights(archive, &archive->programs[i]));
  }
  uint32_t slot = archive->replacement_count;
  TH_PUSH(&archive->arena, archive->replacements, archive->replacement_count,
          archive->replacement_cap) = NULL;
  archive->replacement_count = slot; // counts once it is checked
  th_safetensors *file;
  TH_TRY(th_safetensors_open(archive->ctx, job->path, &file));
  th_status status = weights_check_names(job, file);
  if (status != TH_OK) {
    th_safetensors_free(file);
    return status;
  }
  archive->replacements[slot] = file;
  archive->replacement_count++;
  return TH_OK;
}

th_status th_pt2_replace_weights(th_pt2 *archive, const char *path) {
  weights_job job = {.archive = archive, .path = path};
  return th_protect(&archive->ctx->unwind, weights_replace, &job);
}

// ---- asking for a weight ---------------------------------------------------

static th_status weights_make(weights_job *job, const th_pt2_record *record) {
  th_pt2 *archive = job->archive;
  int64_t numel;
  TH_TRY(weights_check(job, record, &numel));
  TH_TRY(weights_replaced(job, record));
  if (job->tensor) {
    return TH_OK;
  }
  if (numel == 0) {
    return th_tensor_new(archive->ctx, record->dtype, record->rank,
                         record->dims, &job->tensor);
  }
  if (record->bytes == 0) {
    return weights_made_up(job, record, numel);
  }
  th_storage *storage;
  TH_TRY(weights_storage(archive, record, &storage));
  return th_tensor_make(archive->ctx, storage, record->dtype, record->rank,
                        record->dims, record->strides,
                        record->offset * (int64_t)th_dtype_size(record->dtype),
                        &job->tensor);
}

static bool weights_is_buffer(const th_pt2_program *program, const char *fqn) {
  for (size_t i = 0; i < program->input_count; i++) {
    const th_pt2_input *input = &program->inputs[i];
    if (input->kind == TH_PT2_BUFFER && strcmp(input->fqn, fqn) == 0) {
      return true;
    }
  }
  return false;
}

static th_status weights_get(void *arg) {
  weights_job *job = arg;
  th_pt2 *archive = job->archive;
  TH_TRY(th_pt2_program_find(archive, job->program_name, &job->program));
  TH_TRY(th_pt2_read_weights(archive, job->program));
  const th_pt2_record *record = th_map_get(&job->program->weights, job->fqn);
  if (!record) {
    record = th_map_get(&job->program->constants, job->fqn);
  }
  if (!record) {
    return th_error(archive->ctx, TH_NOT_FOUND, weights_place(job),
                    "no data for '%s'", job->fqn);
  }
  TH_TRY(weights_make(job, record));
  if (!weights_is_buffer(job->program, job->fqn)) {
    return TH_OK;
  }
  th_tensor *shared = job->tensor;
  job->tensor = NULL;
  th_status status = th_tensor_clone(archive->ctx, shared, &job->tensor);
  th_tensor_release(shared);
  return status;
}

th_status th_pt2_weight(th_pt2 *archive, const char *program, const char *fqn,
                        th_tensor **out_tensor) {
  weights_job job = {.archive = archive, .program_name = program, .fqn = fqn};
  TH_TRY(th_protect(&archive->ctx->unwind, weights_get, &job));
  *out_tensor = job.tensor;
  return TH_OK;
}

// ---- samples ---------------------------------------------------------------

enum { WEIGHTS_SAMPLE_DEPTH = 64, WEIGHTS_SAMPLES = 1 << 16 };

static th_status weights_leaf(weights_job *job, th_saved *saved,
                              const th_pickle *value) {
  th_pt2 *archive = job->archive;
  if (job->count == job->cap) {
    size_t cap = job->cap ? job->cap * 2 : 16;
    th_tensor **grown = th_realloc(job->tensors, cap * sizeof *grown);
    if (!grown) {
      return th_error(archive->ctx, TH_NO_MEMORY, weights_place(job),
                      "out of memory");
    }
    job->tensors = grown;
    job->cap = cap;
  }
  job->tensors[job->count] = NULL;
  if (value->kind == TH_PICKLE_TENSOR) {
    th_pt2_record *record;
    TH_TRY(weights_saved(archive, saved, "sample", value->tensor, &record));
    TH_TRY(weights_make(job, record));
    job->tensors[job->count] = job->tensor;
    job->tensor = NULL;
  }
  job->count++;
  return TH_OK;
}

static th_status weights_leaves(weights_job *job, th_saved *saved,
                                const th_pickle *value, int depth) {
  bool is_list = value->kind == TH_PICKLE_LIST;
  if (!is_list && value->kind != TH_PICKLE_DICT) {
    return weights_leaf(job, saved, value);
  }
  uint32_t step = is_list ? 1 : 2;
  for (uint32_t i = step - 1; i < value->count; i += step) {
    if (depth > WEIGHTS_SAMPLE_DEPTH || job->count > WEIGHTS_SAMPLES) {
      return th_error(job->archive->ctx, TH_PARSE,
                      (th_loc){.file = saved->zip.name},
                      "sample inputs are nested too deeply or too many");
    }
    TH_TRY(weights_leaves(job, saved, value->items[i], depth + 1));
  }
  return TH_OK;
}

static th_status weights_samples(void *arg) {
  weights_job *job = arg;
  th_pt2 *archive = job->archive;
  TH_TRY(th_pt2_program_find(archive, job->program_name, &job->program));
  TH_TRY(th_pt2_read_weights(archive, job->program));
  const th_zip_entry *entry =
      archive->is_flat ? th_pt2_entry(archive, "serialized_example_inputs.pt")
                       : th_pt2_entry(archive, "data/sample_inputs/%s.pt",
                                      job->program->name);
  if (!entry || entry->size == 0) {
    return TH_OK;
  }
  th_saved *saved = TH_NEW(&archive->arena, th_saved);
  TH_TRY(weights_open_saved(archive, entry, saved));
  return weights_leaves(job, saved, saved->value, 0);
}

void th_pt2_free_tensors(th_tensor **tensors, size_t count) {
  for (size_t i = 0; i < count; i++) {
    th_tensor_release(tensors[i]);
  }
  th_free(tensors);
}

th_status th_pt2_sample_inputs(th_pt2 *archive, const char *program,
                               th_tensor ***out_tensors, size_t *out_count) {
  weights_job job = {.archive = archive, .program_name = program};
  th_status status = th_protect(&archive->ctx->unwind, weights_samples, &job);
  if (status != TH_OK) {
    th_tensor_release(job.tensor);
    th_pt2_free_tensors(job.tensors, job.count);
    return status;
  }
  *out_tensors = job.tensors;
  *out_count = job.count;
  return TH_OK;
}
