; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; Function Attrs: nounwind
define ptx_kernel void @wrapped_concatenate(ptr noalias nofree readonly align 256 captures(none) dereferenceable(2097152) %0, ptr noalias nofree readonly align 256 captures(none) dereferenceable(2097152) %1, ptr noalias nofree writeonly align 256 captures(none) dereferenceable(4194304) %2) local_unnamed_addr #0 {
  %4 = addrspacecast ptr %0 to ptr addrspace(1)
  %5 = addrspacecast ptr %2 to ptr addrspace(1)
  %6 = addrspacecast ptr %1 to ptr addrspace(1)
  tail call void @llvm.nvvm.griddepcontrol.wait()
  %7 = tail call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !range !2
  %8 = tail call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !3
  %9 = shl nuw nsw i32 %8, 2
  %10 = shl nuw nsw i32 %7, 9
  %11 = or disjoint i32 %9, %10
  %12 = zext nneg i32 %11 to i64
  %13 = getelementptr inbounds [2 x i8], ptr addrspace(1) %4, i64 %12
  %14 = load <4 x bfloat>, ptr addrspace(1) %13, align 8, !invariant.load !4
  %15 = getelementptr inbounds [2 x i8], ptr addrspace(1) %5, i64 %12
  store <4 x bfloat> %14, ptr addrspace(1) %15, align 8
  %16 = getelementptr inbounds [2 x i8], ptr addrspace(1) %6, i64 %12
  %17 = load <4 x bfloat>, ptr addrspace(1) %16, align 8, !invariant.load !4
  %18 = getelementptr inbounds i8, ptr addrspace(1) %15, i64 2097152
  store <4 x bfloat> %17, ptr addrspace(1) %18, align 8
  ret void
}

; Function Attrs: nounwind
declare void @llvm.nvvm.griddepcontrol.wait() #1

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x() #2

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x() #2

attributes #0 = { nounwind "nvvm.reqntid"="128,1,1" }
attributes #1 = { nounwind }
attributes #2 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }

!llvm.module.flags = !{!0, !1}

!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = !{i32 4, !"nvvm-reflect-ftz", i32 0}
!2 = !{i32 0, i32 2048}
!3 = !{i32 0, i32 128}
!4 = !{}
