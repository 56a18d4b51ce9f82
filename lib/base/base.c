// Version, and the tables of statuses, element types and devices.
#include "thunder/base.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define BASE_TEXT_OF(x) #x
#define BASE_TEXT(x) BASE_TEXT_OF(x)

const char *th_version(void) {
  return BASE_TEXT(TH_VERSION_MAJOR) "." BASE_TEXT(
      TH_VERSION_MINOR) "." BASE_TEXT(TH_VERSION_PATCH);
}

const char *th_status_text(th_status status) {
  static const char *const texts[] = {
#define X(name, text) [TH_##name] = (text),
      TH_STATUS_MAP(X)
#undef X
  };
  size_t count = sizeof texts / sizeof *texts;
  return (size_t)status < count ? texts[status] : "unknown status";
}

typedef struct base_dtype {
  const char *name;
  size_t size;
  char kind;
} base_dtype;

static const base_dtype base_dtypes[] = {
#define X(name, text, size, kind) [TH_##name] = {text, size, kind},
    TH_DTYPE_MAP(X)
#undef X
};

size_t th_dtype_size(th_dtype dtype) {
  return (size_t)dtype < TH_DTYPE_COUNT ? base_dtypes[dtype].size : 0;
}

const char *th_dtype_name(th_dtype dtype) {
  return (size_t)dtype < TH_DTYPE_COUNT ? base_dtypes[dtype].name : "?";
}

th_dtype th_dtype_parse(const char *name) {
  if (strcmp(name, "bool") == 0) {
    return TH_BOOL;
  }
  int i = 0;
  while (i < TH_DTYPE_COUNT && strcmp(name, base_dtypes[i].name) != 0) {
    i++;
  }
  return (th_dtype)i;
}

bool th_dtype_is_float(th_dtype dtype) {
  return (size_t)dtype < TH_DTYPE_COUNT && base_dtypes[dtype].kind == 'f';
}

static const char *const base_devices[] = {
#define X(name, text) [TH_##name] = (text),
    TH_DEVICE_MAP(X)
#undef X
};

const char *th_device_text(th_device device, char *buffer, size_t size) {
  if ((size_t)device.type >= TH_DEVICE_TYPE_COUNT) {
    snprintf(buffer, size, "?");
  } else if (device.type == TH_CPU) {
    snprintf(buffer, size, "cpu");
  } else {
    snprintf(buffer, size, "%s:%d", base_devices[device.type], device.index);
  }
  return buffer;
}

// ":12" as an index; false when it is none.
static bool base_parse_index(const char *text, int *out_index) {
  if (*text == '\0') {
    *out_index = 0;
    return true;
  }
  if (*text++ != ':' || *text == '\0') {
    return false;
  }
  int index = 0;
  for (; *text >= '0' && *text <= '9' && index < INT_MAX / 10 - 1; text++) {
    index = index * 10 + (*text - '0');
  }
  *out_index = index;
  return *text == '\0';
}

bool th_device_parse(const char *text, th_device *out_device) {
  for (int i = 0; i < TH_DEVICE_TYPE_COUNT; i++) {
    size_t length = strlen(base_devices[i]);
    int index;
    if (strncmp(text, base_devices[i], length) == 0 &&
        base_parse_index(text + length, &index) &&
        (i != TH_CPU || index == 0)) {
      *out_device = (th_device){(th_device_type)i, index};
      return true;
    }
  }
  return false;
}

bool th_device_equal(th_device a, th_device b) {
  return a.type == b.type && a.index == b.index;
}
