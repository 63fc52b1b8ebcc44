/* Every flag of every command. A new flag is a new row here and nothing else: parsing, help, config
 * files, the resolved configuration and completion follow from it. Order inside a group is the
 * order of help. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_size.h"
#include "base/options.h"

#define BIT(command) (1u << ULL_COMMAND_##command)
#define TRAINING (BIT(PLAN) | BIT(TRAIN))
#define WITH_MODEL (TRAINING | BIT(EVAL) | BIT(PREDICT) | BIT(RUN) | BIT(CHECK))
#define WITH_DATA (TRAINING | BIT(EVAL) | BIT(PREDICT))
#define BUILDS_MODEL (WITH_DATA | BIT(PROBE))
#define WITH_LOADER (WITH_DATA | BIT(DATA))
#define ON_DEVICE (WITH_DATA | BIT(RUN))
#define ANY ((1u << ULL_COMMAND_COUNT) - 1)

/* X or GLOB=X with X >= 0. */
static bool is_real_or_pattern(const char *text) {
  const char *equals = strrchr(text, '=');
  double value;
  return equals != text && ull__parse_real(equals != NULL ? equals + 1 : text, &value) &&
         value >= 0;
}

/* X,X, each in [0, 1). */
static bool is_pair_below_one(const char *text) {
  char copy[64];
  const char *comma = strchr(text, ',');
  double a, b;
  if (comma == NULL || strlen(text) >= sizeof copy) return false;
  memcpy(copy, text, strlen(text) + 1);
  copy[comma - text] = '\0';
  return ull__parse_real(copy, &a) && ull__parse_real(comma + 1, &b) && a >= 0 && a < 1 && b >= 0 &&
         b < 1;
}

/* NAME=ARRAY, neither empty. */
static bool is_binding(const char *text) {
  const char *equals = strchr(text, '=');
  return equals != NULL && equals != text && equals[1] != '\0';
}

/* A-B or A with 1 <= A <= B. */
static bool is_step_range(const char *text) {
  char copy[64];
  const char *dash = strchr(text, '-');
  int64_t from, to;
  if (strlen(text) >= sizeof copy) return false;
  memcpy(copy, text, strlen(text) + 1);
  if (dash != NULL) copy[dash - text] = '\0';
  if (!ull__parse_integer(copy, &from) || from < 1) return false;
  return dash == NULL || (ull__parse_integer(dash + 1, &to) && to >= from);
}

/* A number of steps, or a duration: 30s, 10min, 2h. */
static bool is_steps_or_duration(const char *text) {
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 9 || strtoul(text, NULL, 10) == 0) return false;
  return text[digits] == '\0' || ull__option_is_word("s|min|h", text + digits);
}

/* MEAN:STD, each one number or several with commas; standard deviations above 0. */
static bool is_mean_and_deviation(const char *text) {
  char copy[256];
  size_t length = strlen(text), colons = 0;
  if (length >= sizeof copy) return false;
  memcpy(copy, text, length + 1);
  bool deviation = false;
  char *number = copy;
  for (size_t i = 0; i <= length; i++) {
    char c = copy[i];
    if (c != ',' && c != ':' && c != '\0') continue;
    double value;
    copy[i] = '\0';
    if (!ull__parse_real(number, &value) || (deviation && value <= 0)) return false;
    number = copy + i + 1;
    colons += c == ':';
    deviation = deviation || c == ':';
  }
  return colons == 1;
}

/* 1 or 1,2,4. */
static bool is_counts(const char *text) {
  while (true) {
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 4 || strtoul(text, NULL, 10) == 0) return false;
    if (text[digits] == '\0') return true;
    if (text[digits] != ',') return false;
    text += digits + 1;
  }
}

/* x,y,w,h. */
static bool is_rectangle(const char *text) {
  int numbers = 1;
  for (;; text++, numbers++) {
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9) return false;
    text += digits;
    if (*text == '\0') return numbers == 4;
    if (*text != ',') return false;
  }
}

#define FLAG(title, set, mask, about)                                                     \
  {                                                                                       \
    .name = title, .kind = ULL__OPTION_FLAG, .group = ULL__GROUP_##set, .commands = mask, \
    .initial = "false", .help = about                                                     \
  }
#define INTEGER(title, meta, low, high, start, set, mask, about, ...)                         \
  {                                                                                           \
    .name = title, .kind = ULL__OPTION_INTEGER, .metavar = meta, .least = low, .most = high,  \
    .initial = start, .group = ULL__GROUP_##set, .commands = mask, .help = about, __VA_ARGS__ \
  }
#define REAL(title, meta, low, high, start, set, mask, about)                             \
  {                                                                                       \
    .name = title, .kind = ULL__OPTION_REAL, .metavar = meta, .least = low, .most = high, \
    .initial = start, .group = ULL__GROUP_##set, .commands = mask, .help = about          \
  }
#define SIZE(title, low, start, set, mask, about)                                               \
  {                                                                                             \
    .name = title, .kind = ULL__OPTION_SIZE, .metavar = "SIZE", .least = low, .most = HUGE_VAL, \
    .initial = start, .group = ULL__GROUP_##set, .commands = mask, .help = about                \
  }
#define CHOICE(title, list, start, set, mask, about, ...)                                        \
  {                                                                                              \
    .name = title, .kind = ULL__OPTION_CHOICE, .metavar = list, .words = list, .initial = start, \
    .group = ULL__GROUP_##set, .commands = mask, .help = about, __VA_ARGS__                      \
  }
#define TEXT(title, meta, start, set, mask, about, ...)                         \
  {                                                                             \
    .name = title, .kind = ULL__OPTION_TEXT, .metavar = meta, .initial = start, \
    .group = ULL__GROUP_##set, .commands = mask, .help = about, __VA_ARGS__     \
  }
#define LIST(title, meta, set, mask, about, ...)                                         \
  {                                                                                      \
    .name = title, .kind = ULL__OPTION_LIST, .metavar = meta, .group = ULL__GROUP_##set, \
    .commands = mask, .help = about, __VA_ARGS__                                         \
  }

/* Beyond what any machine holds, below what a 64-bit size times an element wraps at. */
#define MANY 1e15

/* clang-format off */
const ull__option ull__options[] = {
    TEXT("model", "MODEL", NULL, MODEL, WITH_MODEL | BIT(PROBE),
         "zoo:NAME?key=value&..., FILE.pt2 or FILE.onnx; eval and predict take a run folder too",
         .positional = true),
    TEXT("loss", "NAME", "auto", MODEL, WITH_DATA,
         "loss to minimise; auto: what the model's outputs and the target ask for"),
    TEXT("init", "FILE", NULL, MODEL, TRAINING | BIT(EVAL) | BIT(RUN),
         "start from the weights of a safetensors file"),
    FLAG("partial", MODEL, TRAINING,
         "let --init leave parameters at their random values where the file lacks them"),
    INTEGER("classes", "N", 1, 1e9, NULL, MODEL, BUILDS_MODEL, "outputs of the classifier; by "
            "default the model's own"),
    TEXT("eval-model", "FILE", NULL, MODEL, TRAINING, "model file to evaluate with, where the "
         "training graph's own evaluation form is not wanted"),
    LIST("freeze", "GLOB", MODEL, TRAINING, "leave matching parameters as they are; may be "
         "repeated"),
    LIST("train", "GLOB", MODEL, TRAINING, "train only matching parameters; may be repeated"),
    INTEGER("seq", "N", 1, 1e9, NULL, MODEL, BUILDS_MODEL, "tokens per sequence; by default "
            "the model's own"),

    TEXT("data", "SRC", NULL, DATA, WITH_DATA, "a folder, idx:DIR, npz:FILE, npy:DIR, text:FILE, "
         "tokens:FILE, tar:GLOB, cifar:DIR, csv:FILE, parquet:GLOB or synthetic"),
    TEXT("val-data", "SRC", NULL, DATA, TRAINING, "source to evaluate on after each epoch"),
    REAL("val-split", "X", 0, 0.95, NULL, DATA, TRAINING, "evaluate on this share of --data, held "
         "out of training"),
    LIST("input", "NAME=ARRAY", DATA, WITH_DATA, "bind a model input to an array of the source; "
         "may be repeated", .check = is_binding),
    TEXT("target", "ARRAY", NULL, DATA, WITH_DATA, "array that holds the targets"),
    FLAG("no-shuffle", DATA, TRAINING, "take samples in the order of the source"),
    TEXT("augment", "auto|LIST|none", "auto", DATA, WITH_LOADER, "random changes of training "
         "images; auto: rrc,flip for photographs. With commas between: rrc[:MIN-MAX], resize[:SIDE], stretch, crop[:PIXELS], flip, "
         "vflip, rotate:DEGREES, color-jitter:B:C:S:H, grayscale[:P], randaugment[:N:M], erase[:P], "
         "mixup[:ALPHA], cutmix[:ALPHA]. Evaluation takes resize and stretch over"),
    TEXT("normalize", "auto|none|MEAN:STD", "auto", DATA, WITH_LOADER, "subtract MEAN and divide "
         "by STD, one number or one a channel with commas; auto: from the source",
         .words = "auto|none", .check = is_mean_and_deviation),
    FLAG("pack", DATA, WITH_DATA, "join short texts into full sequences"),
    TEXT("buckets", "N|64,128", NULL, DATA, WITH_DATA, "instead of --pack: batches of texts of "
         "similar length, N lengths chosen by the texts, or these"),
    TEXT("tokenizer", "FILE|bytes", NULL, DATA, WITH_DATA, "tokenizer.json for text:FILE; by "
         "default its bytes are the tokens"),
    INTEGER("workers", "N", 1, 1024, NULL, DATA, WITH_DATA, "loader threads; by default as many "
            "as the step needs"),
    TEXT("workers", "N|1,2,4", NULL, DATA, BIT(DATA), "loader threads; several numbers are "
         "measured one after another", .check = is_counts),
    INTEGER("prefetch", "auto|N", 1, 1024, "auto", DATA, WITH_LOADER, "batches made ready ahead; "
            "auto: 2, of pictures some 256 samples", .words = "auto"),
    SIZE("loader-memory", 1, NULL, DATA, WITH_LOADER, "budget of loader and prefetched batches"),
    CHOICE("on-bad", "replace|skip|fail", "replace", DATA, WITH_LOADER, "what becomes of a sample "
           "that cannot be used"),
    INTEGER("max-bad", "N", 0, MANY, NULL, DATA, WITH_LOADER, "stop when more samples than this "
            "are bad"),
    CHOICE("mode", "eval|train", "train", DATA, BIT(DATA), "how samples are prepared"),
    INTEGER("size", "N", 1, 65536, NULL, DATA, BIT(DATA), "side of the prepared images"),
    CHOICE("dtype", "float32|float16|bfloat16|uint8", "float32", DATA, BIT(DATA), "elements of "
           "prepared images; uint8 is not normalised"),
    CHOICE("layout", "nchw|nhwc", "nchw", DATA, BIT(DATA), "order of the axes of prepared images"),
    CHOICE("shuffle", "auto|true|false", "auto", DATA, BIT(DATA), "take samples in a random order; "
           "auto: where --mode is train"),
    FLAG("drop-last", DATA, BIT(DATA), "leave out the last, smaller batch of an epoch"),
    INTEGER("rank", "R", 0, 65535, "0", DATA, BIT(DATA), "this part of a divided source"),
    INTEGER("world-size", "W", 1, 65536, "1", DATA, BIT(DATA), "parts of a divided source"),
    INTEGER("start-batch", "B", 0, MANY, "0", DATA, BIT(DATA), "first batch"),
    INTEGER("batches", "B", 1, MANY, NULL, DATA, BIT(DATA), "batches to load; by default all"),
    TEXT("samples", "FILE", NULL, DATA, BIT(DATA), "write a JSON line a sample"),
    TEXT("files", "FILE", NULL, DATA, BIT(DATA), "write a JSON line a file"),
    TEXT("crop", "x,y,w,h", NULL, DATA, BIT(DATA), "part of the image", .check = is_rectangle),
    CHOICE("orientation", "apply|ignore", "apply", DATA, BIT(DATA), "what becomes of the "
           "orientation in a photo's metadata"),
    TEXT("out", "FILE.csv", NULL, DATA, BIT(PREDICT), "file for the predictions"),
    SIZE("shard-size", 4096, "256MiB", DATA, BIT(DATA), "pack: largest size of a shard"),
    INTEGER("max-side", "N", 1, 65500, NULL, DATA, BIT(DATA), "pack: pictures whose shorter side "
            "is longer are resized to it and encoded as JPEG; others are copied"),
    INTEGER("quality", "N", 1, 100, NULL, DATA, BIT(DATA), "pack: of JPEGs that are written, 90 by "
            "default; where given, pictures that become smaller by it are encoded anew as well"),
    INTEGER("n", "N", 1, 1024, "16", DATA, BIT(DATA), "show: samples in the picture"),
    TEXT("out", "FILE|DIR", NULL, DATA, BIT(DATA), "decode: file for the pixels (.ppm, .pgm); pack: "
         "folder of the shards, or the beginning of their names with a dash at its end; show: file "
         "for the picture (.png, .jpg)"),
    TEXT("inputs", "FILE.npz", NULL, DATA, BIT(RUN), "arrays named as the model's inputs"),
    TEXT("outputs", "FILE.npz", NULL, DATA, BIT(RUN), "file for the model's outputs"),

    INTEGER("batch-size", "N", 1, 1e9, "64", MEMORY, WITH_LOADER | BIT(PROBE), "samples per "
            "optimizer step"),
    INTEGER("micro-batch", "off|N|auto", 1, 1e9, "off", MEMORY, TRAINING, "split a step into "
            "micro-batches of N samples and accumulate gradients; changes rounding",
            .words = "off|auto"),
    SIZE("memory", 1, NULL, MEMORY, ON_DEVICE, "budget of the device's tier; on cpu everything "
         "resident. By default what is free now less a margin"),
    SIZE("host-memory", 1, NULL, MEMORY, ON_DEVICE, "budget of the host's tier, where the device "
         "has memory of its own"),
    SIZE("disk-memory", 1, NULL, MEMORY, TRAINING, "budget of the disk tier"),
    TEXT("device", "cpu|sim:SIZE@RATE|opencl[:N]|cuda[:N]", "cpu", MEMORY, ON_DEVICE | BIT(PROBE),
         "where to compute; sim: a simulated accelerator with its own memory and link"),
    TEXT("machine", "TEXT|FILE", NULL, MEMORY, TRAINING, "plan for this machine instead of the "
         "one measured here: 'device:8GiB@12GB/s host:16GiB compute:9TFLOPS mem:300GB/s'"),
    INTEGER("threads", "N", 1, 4096, NULL, MEMORY, ON_DEVICE | BIT(PROBE), "compute threads; by "
            "default the usable cores"),
    INTEGER("effort", "N", 1, 1e9, "2000", MEMORY, ON_DEVICE, "schedules the planner evaluates"),
    CHOICE("fusion", "on|off", "on", MEMORY, ON_DEVICE, "join chains of element-wise operators"),
    LIST("allow", "WHAT", MEMORY, TRAINING, "allow what changes numbers: micro-batch, half, "
         "implementation; may be repeated"),
    TEXT("load", "FILE", NULL, MEMORY, TRAINING, "use a saved plan"),
    TEXT("save", "FILE", NULL, MEMORY, TRAINING, "write the plan as JSON"),
    CHOICE("show", "graph|lowered|schedule|memory", NULL, MEMORY, TRAINING, "print a stage",
           .unsaved = true),

    CHOICE("opt", "sgd|adam|adamw", "sgd", RECIPE, TRAINING, "optimizer"),
    LIST("lr", "X|GLOB=X", RECIPE, TRAINING, "learning rate, or one for matching parameters; may "
         "be repeated. By default 0.01 for sgd, 0.001 for adam and adamw",
         .check = is_real_or_pattern),
    REAL("momentum", "X", 0, 1, "0.9", RECIPE, TRAINING, "momentum of sgd"),
    FLAG("nesterov", RECIPE, TRAINING, "Nesterov's form of momentum"),
    TEXT("betas", "X,X", "0.9,0.999", RECIPE, TRAINING, "decay rates of adam and adamw",
         .check = is_pair_below_one),
    REAL("eps", "X", 0, 1, "1e-8", RECIPE, TRAINING, "added to the denominator of adam and adamw"),
    LIST("weight-decay", "X|GLOB=X", RECIPE, TRAINING, "weight decay, or one for matching "
         "parameters; may be repeated. By default 0.01 for adamw, 0 otherwise",
         .check = is_real_or_pattern),
    FLAG("decay-all", RECIPE, TRAINING, "decay biases and normalisation parameters too"),
    REAL("clip-grad", "X", 0, HUGE_VAL, NULL, RECIPE, TRAINING, "scale gradients to this global "
         "norm; holds all gradients until the step ends"),
    REAL("clip-value", "X", 0, HUGE_VAL, NULL, RECIPE, TRAINING, "cut each gradient element to "
         "[-X, X]"),
    REAL("label-smoothing", "X", 0, 0.999999, "0", RECIPE, TRAINING, "share of the target spread "
         "over all classes"),
    REAL("ema", "X", 0, 1, NULL, RECIPE, TRAINING, "keep an average of the weights with this "
         "decay"),
    CHOICE("schedule", "constant|step|cosine|linear|one-cycle", "constant", RECIPE, TRAINING,
           "how the learning rate changes"),
    INTEGER("warmup-steps", "N", 0, MANY, "0", RECIPE, TRAINING, "steps over which the learning "
            "rate rises from 0"),
    INTEGER("epochs", "N", 1, 1e9, "10", RECIPE, TRAINING, "passes over the data"),
    INTEGER("epochs", "N", 1, 1e9, "1", RECIPE, BIT(DATA), "passes over the data"),
    INTEGER("steps", "N", 1, MANY, NULL, RECIPE, TRAINING, "optimizer steps, instead of --epochs"),
    INTEGER("patience", "N", 1, 1e9, NULL, RECIPE, TRAINING, "stop after N evaluations without a "
            "better loss"),
    INTEGER("seed", "N", 0, HUGE_VAL, "0", RECIPE, WITH_LOADER, "seed of weights, order, "
            "augmentation and dropout"),

    TEXT("run", "DIR", NULL, RUN, BIT(TRAIN) | BIT(PLAN), "folder for the configuration, metrics "
         "and checkpoints; by default a new one under runs/"),
    TEXT("config", "FILE", NULL, RUN, ANY, "read flags from a file; the command line goes over it",
         .unsaved = true),
    TEXT("resume", "auto|never|PATH", "auto", RUN, TRAINING, "continue from a checkpoint; auto: "
         "where the run folder has one"),
    FLAG("resume-inexact", RUN, TRAINING, "continue although numbers will differ from an "
         "uninterrupted run"),
    TEXT("checkpoint-every", "N|10min", NULL, RUN, TRAINING, "steps or time between checkpoints; "
         "by default an epoch", .check = is_steps_or_duration),
    INTEGER("keep-checkpoints", "N", 1, 1e6, "2", RUN, TRAINING, "checkpoints kept, newest first"),
    CHOICE("on-save-error", "continue|stop", "stop", RUN, TRAINING, "when a checkpoint cannot be "
           "written"),
    CHOICE("on-nan", "stop|skip|rollback", "stop", RUN, TRAINING, "when the loss is not finite"),
    TEXT("trace-steps", "A-B", NULL, RUN, TRAINING, "record a timeline of these steps",
         .check = is_step_range),
    INTEGER("sample-every", "N", 1, MANY, NULL, RUN, TRAINING, "steps between printed samples of "
            "a language model"),
    {.name = "json", .kind = ULL__OPTION_FLAG, .group = ULL__GROUP_RUN, .commands = ANY,
     .initial = "false", .unsaved = true, .help = "print one JSON object, last on stdout"},
    {.name = "help", .kind = ULL__OPTION_FLAG, .group = ULL__GROUP_RUN, .commands = ANY,
     .initial = "false", .unsaved = true, .help = "print this text"},
};
/* clang-format on */

const size_t ull__option_count = sizeof ull__options / sizeof ull__options[0];
