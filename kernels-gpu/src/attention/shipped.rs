//! The functors that ship with kernels.

use super::{Alibi, Band, Dropout, SoftCap, Strided};
use cuda_std::{bf16, f16};

crate::attention_kernels! { attention_bf16, Band, bf16 }
crate::attention_kernels! { attention_f16, Band, f16 }
crate::attention_kernels! { attention_soft_cap_bf16, SoftCap, bf16 }
crate::attention_kernels! { attention_alibi_bf16, Alibi, bf16 }
crate::attention_kernels! { attention_dropout_bf16, Dropout<Band>, bf16 }
crate::attention_kernels! { attention_strided_bf16, Strided, bf16 }
crate::block_list_kernels! { strided_block_lists, Strided }
crate::attention_scaled_kernels! { attention_e4m3, Band, bf16 }

crate::attention_backward_kernels! { attention_backward_bf16, Band, bf16 }
crate::attention_backward_kernels! { attention_backward_f16, Band, f16 }
crate::attention_backward_kernels! { attention_backward_soft_cap_bf16, SoftCap, bf16 }
crate::attention_backward_kernels! { attention_backward_alibi_bf16, Alibi, bf16 }
crate::attention_backward_kernels! { attention_backward_dropout_bf16, Dropout<Band>, bf16 }
