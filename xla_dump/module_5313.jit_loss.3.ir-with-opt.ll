; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; Function Attrs: nounwind
define ptx_kernel void @loop_dynamic_slice_fusion(ptr noalias nofree readonly align 256 captures(none) dereferenceable(1048576) %0, ptr noalias nofree readonly align 256 captures(none) dereferenceable(32) %1, ptr noalias nofree readonly align 256 captures(none) dereferenceable(4) %2, ptr noalias nofree writeonly align 256 captures(none) dereferenceable(524288) %3) local_unnamed_addr #0 {
  %5 = addrspacecast ptr %2 to ptr addrspace(1)
  %6 = addrspacecast ptr %1 to ptr addrspace(1)
  %7 = addrspacecast ptr %0 to ptr addrspace(1)
  %8 = addrspacecast ptr %3 to ptr addrspace(1)
  tail call void @llvm.nvvm.griddepcontrol.wait()
  %9 = tail call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !range !2
  %10 = tail call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !3
  %11 = lshr i32 %9, 1
  %12 = load i32, ptr addrspace(1) %5, align 256, !invariant.load !4
  %13 = tail call i32 @llvm.umin.i32(i32 %12, i32 7)
  %14 = zext nneg i32 %13 to i64
  %15 = getelementptr inbounds [4 x i8], ptr addrspace(1) %6, i64 %14
  %16 = load i32, ptr addrspace(1) %15, align 4, !invariant.load !4
  %17 = tail call i32 @llvm.smax.i32(i32 %16, i32 0)
  %18 = tail call i32 @llvm.umin.i32(i32 %17, i32 1024)
  %19 = add nuw nsw i32 %18, %11
  %20 = shl nuw nsw i32 %9, 7
  %21 = and i32 %20, 128
  %22 = shl nuw nsw i32 %19, 8
  %23 = or disjoint i32 %22, %21
  %24 = or disjoint i32 %23, %10
  %25 = zext nneg i32 %24 to i64
  %26 = getelementptr inbounds [2 x i8], ptr addrspace(1) %7, i64 %25
  %27 = load bfloat, ptr addrspace(1) %26, align 2, !invariant.load !4
  %28 = or disjoint i32 %20, %10
  %29 = zext nneg i32 %28 to i64
  %30 = getelementptr inbounds [2 x i8], ptr addrspace(1) %8, i64 %29
  store bfloat %27, ptr addrspace(1) %30, align 2
  ret void
}

; Function Attrs: nounwind
declare void @llvm.nvvm.griddepcontrol.wait() #1

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x() #2

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x() #2

; Function Attrs: mustprogress nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none)
declare i32 @llvm.umin.i32(i32, i32) #3

; Function Attrs: mustprogress nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none)
declare i32 @llvm.smax.i32(i32, i32) #3

attributes #0 = { nounwind "nvvm.reqntid"="128,1,1" }
attributes #1 = { nounwind }
attributes #2 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #3 = { mustprogress nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none) }

!llvm.module.flags = !{!0, !1}

!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = !{i32 4, !"nvvm-reflect-ftz", i32 0}
!2 = !{i32 0, i32 2048}
!3 = !{i32 0, i32 128}
!4 = !{}
