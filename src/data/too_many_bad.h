/* How a run ends of which too many samples are bad, in words: whoever counts them says it alike. */
#ifndef ULL_DATA_TOO_MANY_BAD_H
#define ULL_DATA_TOO_MANY_BAD_H

#include <inttypes.h>

#include "base/error.h"
#include "ullage/source.h"

/* ULL_ERROR_DATA. `text` is the source's; `path`, `verdict` and `reason` (which may be "") are of
 * one of the `bad` samples. `why` explains the allowance, or is "". */
static inline ull_status ull__fail_too_many_bad(const char *text, uint64_t bad, uint64_t allowed,
                                                const char *why, const char *path,
                                                ull_verdict verdict, const char *reason) {
  ULL__FAIL(ULL_ERROR_DATA,
            "%.120s: %" PRIu64 " sample%s unusable; %" PRIu64 " are allowed: %.240s: %s%s%s", text,
            bad, bad == 1 ? " was" : "s were", allowed, path, ull_verdict_name(verdict),
            reason[0] != '\0' ? ": " : "", reason);
  ull__error_holder("--max-bad %" PRIu64 "%s", allowed, why);
  return ull__error_change("mend or remove bad files, or raise --max-bad");
}

#endif
