// Whether this is compiled with the address sanitizer: TH_ASAN is 0 or 1.
#ifndef TH_BASE_ASAN_H
#define TH_BASE_ASAN_H

#if defined(__SANITIZE_ADDRESS__)
#define TH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TH_ASAN 1
#endif
#endif
#ifndef TH_ASAN
#define TH_ASAN 0
#endif

#endif
