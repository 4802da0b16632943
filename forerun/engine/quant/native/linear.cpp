// The product as an operator: by raw pointers for Python, by handles for compiled graphs.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

#include "linear.h"

namespace {

// In the threads that torch runs in: a second runtime's would fight with them.
void in_parallel(int64_t num_threads, Body body, void* self) {
    torch_parallel_for(0, num_threads, 1, body, self);
}

void run(const Call& call) {
    uint32_t num_threads = 1;
    torch_get_num_threads(&num_threads);
    if (!call.num_rows || !call.columns) return;
    if (call.bits == 16)
        Linear<Bf16>(call, static_cast<int>(num_threads), in_parallel).run();
    else
        Linear<Integers>(call, static_cast<int>(num_threads), in_parallel).run();
}

#define FORERUN_TRY(call) \
    if (const AOTITorchError error = (call)) return error

}  // namespace

#define FORERUN_VISIBLE extern "C" __attribute__((visibility("default")))

FORERUN_VISIBLE void forerun_packed_linear(const Call* call) { run(*call); }

// forerun::packed_linear, called by a compiled graph: see native_linear.SCHEMA.
FORERUN_VISIBLE AOTITorchError aoti_torch_cpu_packed_linear(AtenTensorHandle rows, AtenTensorHandle packed,
                                                          AtenTensorHandle columns, AtenTensorHandle* output) {
    int64_t dim, *sizes, *column_sizes;
    int32_t packed_dtype;
    bool is_contiguous;
    FORERUN_TRY(aoti_torch_get_dim(rows, &dim));
    FORERUN_TRY(aoti_torch_get_sizes(rows, &sizes));
    FORERUN_TRY(aoti_torch_get_sizes(columns, &column_sizes));
    FORERUN_TRY(aoti_torch_get_dtype(packed, &packed_dtype));
    FORERUN_TRY(aoti_torch_is_contiguous(rows, &is_contiguous));
    constexpr int64_t MAX_DIM = 8;
    if (!is_contiguous || dim < 1 || dim > MAX_DIM) return AOTI_TORCH_FAILURE;
    int64_t output_sizes[MAX_DIM], strides[MAX_DIM];
    std::copy(sizes, sizes + dim, output_sizes);
    Call call{};
    call.depth = sizes[dim - 1];
    call.columns = output_sizes[dim - 1] = column_sizes[1];
    for (int64_t i = dim - 1, stride = 1; i >= 0; stride *= output_sizes[i--]) strides[i] = stride;
    call.num_rows = 1;
    for (int64_t i = 0; i < dim - 1; ++i) call.num_rows *= sizes[i];
    FORERUN_TRY(aoti_torch_empty_strided(dim, output_sizes, strides, aoti_torch_dtype_bfloat16(),
                                         aoti_torch_device_type_cpu(), 0, output));
    void *row_data, *packed_data, *column_data, *output_data;
    FORERUN_TRY(aoti_torch_get_data_ptr(rows, &row_data));
    FORERUN_TRY(aoti_torch_get_data_ptr(packed, &packed_data));
    FORERUN_TRY(aoti_torch_get_data_ptr(columns, &column_data));
    FORERUN_TRY(aoti_torch_get_data_ptr(*output, &output_data));
    call.rows = static_cast<const uint16_t*>(row_data);
    call.weights = packed_data;
    call.bits = packed_dtype == aoti_torch_dtype_bfloat16() ? 16 : packed_dtype == aoti_torch_dtype_uint8() ? 4 : 8;
    call.scales = static_cast<const float*>(column_data);
    call.biases = call.scales + call.columns;
    call.output = static_cast<uint16_t*>(output_data);
    run(call);
    return AOTI_TORCH_SUCCESS;
}
