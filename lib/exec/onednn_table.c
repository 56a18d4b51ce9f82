// A small table under a lock; the oldest entry makes room.
#include "exec/onednn_table.h"

#include <string.h>

void th_onednn_table_init(th_onednn_table *table,
                          void (*release)(th_onednn_entry *entry)) {
  *table = (th_onednn_table){.release = release};
  pthread_mutex_init(&table->lock, NULL);
}

void th_onednn_table_deinit(th_onednn_table *table) {
  for (int i = 0; i < TH_ONEDNN_KEPT; i++) {
    if (table->items[i]) {
      table->release(table->items[i]);
    }
  }
  pthread_mutex_destroy(&table->lock);
}

th_onednn_entry *th_onednn_table_find(th_onednn_table *table,
                                      const th_onednn_entry *wanted) {
  th_onednn_entry *found = NULL;
  pthread_mutex_lock(&table->lock);
  for (int i = 0; i < TH_ONEDNN_KEPT && !found; i++) {
    th_onednn_entry *e = table->items[i];
    if (e && e->key_size == wanted->key_size &&
        !memcmp(e->key, wanted->key, e->key_size * sizeof *e->key)) {
      found = e;
      e->used = ++table->clock;
      e->users++;
    }
  }
  pthread_mutex_unlock(&table->lock);
  return found;
}

void th_onednn_table_keep(th_onednn_table *table, th_onednn_entry *entry) {
  int oldest = 0;
  pthread_mutex_lock(&table->lock);
  for (int i = 0; i < TH_ONEDNN_KEPT && table->items[oldest]; i++) {
    if (!table->items[i] ||
        table->items[i]->used < table->items[oldest]->used) {
      oldest = i;
    }
  }
  th_onednn_entry *old = table->items[oldest];
  table->items[oldest] = entry;
  entry->used = ++table->clock;
  entry->users = 1;
  bool unused = old && old->users == 0;
  if (old) {
    old->retired = true;
  }
  pthread_mutex_unlock(&table->lock);
  if (unused) {
    table->release(old);
  }
}

void th_onednn_table_put(th_onednn_table *table, th_onednn_entry *entry) {
  pthread_mutex_lock(&table->lock);
  bool last = --entry->users == 0 && entry->retired;
  pthread_mutex_unlock(&table->lock);
  if (last) {
    table->release(entry);
  }
}
