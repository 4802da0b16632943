// What the library offers: attention by raw pointers for Python, and the operator as a compiled graph calls it.
#include "operator.h"

#define FORERUN_VISIBLE extern "C" __attribute__((visibility("default")))

FORERUN_VISIBLE void forerun_attend(const Step* step, const Layer* layer, int bytes) { attend(*step, *layer, bytes); }

// forerun::paged_attention: see paged_op.SCHEMA.
FORERUN_VISIBLE AOTITorchError aoti_torch_cpu_paged_attention(AtenTensorHandle query, AtenTensorHandle key,
                                                              AtenTensorHandle value, AtenTensorHandle step,
                                                              int64_t layer, double scale, int64_t sliding_window,
                                                              double softcap, AtenTensorHandle* sinks,
                                                              AtenTensorHandle* output) {
    return Operator{query, key, value, step, sinks, output, layer, sliding_window, scale, softcap}.run();
}
