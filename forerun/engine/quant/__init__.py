"""Weights in fewer bits. A quantizer is a function that replaces a loaded module's linear layers in place."""

QUANTIZERS = {
    "int4": "forerun.engine.quant.int4:quantize",
    "fp8": "forerun.engine.quant.fp8:quantize",
    "int8": "forerun.engine.quant.int8:quantize",
}
