"""Files of a user's that many of these tests write."""

SOFTPLUS = """
    import torch

    class Softplus(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.logaddexp(x, torch.zeros_like(x))

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * torch.sigmoid(x)
"""
WRONG = SOFTPLUS.replace("grad_output * torch", "torch").replace("Softplus", "Wrong")
