// Runs a graph that was compiled ahead, on whole numbers as they lie in memory: no tensor of Python's is made for them.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <algorithm>

// `count` of them as a vector; below 0 a single one that is no vector.
struct Numbers {
    int64_t* first;
    int64_t count;
};

// AOTInductorModelContainerRun of torch/csrc/inductor/aoti_runtime/interface.h, which takes the inputs from its caller.
typedef AOTITorchError (*Run)(void* container, AtenTensorHandle* inputs, size_t num_inputs, AtenTensorHandle* outputs,
                              size_t num_outputs, void* stream, void* proxy_executor);

constexpr size_t MAX_INPUTS = 8;
constexpr int64_t MIN_SIZE = 2;  // of a vector: see compiled.MIN_SIZE

// Vectors shorter than MIN_SIZE are filled up with zeros.
extern "C" __attribute__((visibility("default"))) AOTITorchError forerun_run_graph(
    Run run, void* container, const Numbers* inputs, size_t num_inputs, AtenTensorHandle* output) {
    if (num_inputs > MAX_INPUTS) return AOTI_TORCH_FAILURE;
    int64_t filled_up[MAX_INPUTS][MIN_SIZE] = {};
    AtenTensorHandle handles[MAX_INPUTS];
    const int64_t stride = 1;
    for (size_t i = 0; i < num_inputs; ++i) {
        Numbers numbers = inputs[i];
        if (numbers.count >= 0 && numbers.count < MIN_SIZE) {
            std::copy(numbers.first, numbers.first + numbers.count, filled_up[i]);
            numbers = {filled_up[i], MIN_SIZE};
        }
        const int64_t num_dims = numbers.count < 0 ? 0 : 1;
        const AOTITorchError error = aoti_torch_create_tensor_from_blob(
            numbers.first, num_dims, &numbers.count, &stride, 0, aoti_torch_dtype_int64(), aoti_torch_device_type_cpu(), 0,
            &handles[i]);
        if (error) {
            while (i > 0) aoti_torch_delete_tensor_object(handles[--i]);
            return error;
        }
    }
    return run(container, handles, num_inputs, output, 1, nullptr, nullptr);
}
