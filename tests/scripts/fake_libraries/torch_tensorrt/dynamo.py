"""torch_tensorrt.dynamo.compile: takes an exported program, decomposes it into core ATen operators
as the real one does before it makes engines, and returns a module for inputs of that shape."""


def compile(exported_program, arg_inputs):
    module = exported_program.run_decompositions().module()
    shapes = [values.shape for values in arg_inputs]

    def run(*inputs):
        assert [values.shape for values in inputs] == shapes
        return module(*inputs)

    return run
