#pragma once
#include <curl/curl.h>

// Swift imports neither variadic functions nor the checks that curl.h wraps around them.

static inline CURLcode cc_set_long(CURL *easy, CURLoption option, long value) {
  return (curl_easy_setopt)(easy, option, value);
}
static inline CURLcode cc_set_offset(CURL *easy, CURLoption option, curl_off_t value) {
  return (curl_easy_setopt)(easy, option, value);
}
static inline CURLcode cc_set_pointer(CURL *easy, CURLoption option, const void *value) {
  return (curl_easy_setopt)(easy, option, value);
}
static inline CURLcode cc_set_text(CURL *easy, CURLoption option, const char *value) {
  return (curl_easy_setopt)(easy, option, value);
}

typedef size_t (*cc_transfer)(char *bytes, size_t size, size_t count, void *context);
typedef int (*cc_seek)(void *context, curl_off_t offset, int origin);

static inline CURLcode cc_set_transfer(CURL *easy, CURLoption option, cc_transfer function) {
  return (curl_easy_setopt)(easy, option, function);
}
static inline CURLcode cc_set_seek(CURL *easy, cc_seek function) {
  return (curl_easy_setopt)(easy, CURLOPT_SEEKFUNCTION, function);
}

static inline long cc_response_code(CURL *easy) {
  long value = 0;
  (curl_easy_getinfo)(easy, CURLINFO_RESPONSE_CODE, &value);
  return value;
}

// What OpenSSL found wrong with the server's certificate, an X509_V_… code; 0 or 1: nothing.
static inline long cc_verify_result(CURL *easy) {
  long value = 0;
  (curl_easy_getinfo)(easy, CURLINFO_SSL_VERIFYRESULT, &value);
  return value;
}

// The end of the one transfer of `multi`: 1 when it has ended, with its result.
static inline int cc_result(CURLM *multi, CURLcode *result) {
  int left = 0;
  CURLMsg *message;
  while ((message = curl_multi_info_read(multi, &left)))
    if (message->msg == CURLMSG_DONE) {
      *result = message->data.result;
      return 1;
    }
  return 0;
}
